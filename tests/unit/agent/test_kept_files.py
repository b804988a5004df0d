"""The records of kept files: written records are read back, and invalid records are skipped."""

from __future__ import annotations

import os
from pathlib import Path

from gofer.core import files
from gofer.node.kept import records
from gofer.node.kept.records import KeptFile, KeptFiles


def test_a_list_is_read_as_it_was_written() -> None:
    kept = [
        KeptFile("files", "out/model ü.pt", "f", 12, 1_700_000_000_123_456_789, 0o640),
        KeptFile("files", "node-1/prog", "x", 3, 5, 0o755),
        KeptFile("files", "latest", "l", 7, 5, 0o777, "out/model ü.pt"),
        KeptFile("outputs", "empty", "d", 4096, -1, 0o700),
        KeptFile("files", os.fsdecode(b"latin-\xe9"), "f", 0, 0, 0o600),
        KeptFile("outputs", "sparse", "f", 10 * 2**30, 5, 0o644, None, 4096),
    ]
    assert list(records.decode_list(records.encode_list(kept))) == kept


def test_lines_that_are_no_records_are_skipped() -> None:
    good = KeptFile("files", "a", "f", 1, 2, 3)
    bad = [
        ["files", "../a", "f", 1, 2, 3, None],
        ["files", "/a", "f", 1, 2, 3, None],
        ["files", "a\0b", "f", 1, 2, 3, None],
        ["code", "a", "f", 1, 2, 3, None],
        ["files", "a", "p", 1, 2, 3, None],
        ["files", "a", "f", -1, 2, 3, None],
        ["files", "a", "f", True, 2, 3, None],
        ["files", "a", "f", 1, 2**80, 3, None],
        ["files", "a", "l", 1, 2, 3, None],
        ["files", "a", "l", 1, 2, 3, "no file has \ud800"],
        ["files", "no file has \ud800", "f", 1, 2, 3, None],
        ["files", "a", "l", 1, 2, 3, "a\0b"],
        ["files", "a", "f", 1, 2, 3, "somewhere"],
        ["files", "a"],
        {"files": "a"},
        "files",
    ]
    lines = b"".join(files.encode(one) + b"\n" for one in bad)
    torn = b'["files","b","f",1'
    assert list(records.decode_list(lines + good.encode() + b"[" * 100_000 + b"\n" + torn)) == [good]


def test_a_file_is_described_by_its_status(tmp_path: Path) -> None:
    plain, sparse, program, link, folder = (tmp_path / name for name in ("a", "sparse", "prog", "link", "d"))
    plain.write_bytes(b"abc")
    with sparse.open("wb") as file:
        file.truncate(2**30)
    program.write_bytes(b"#!")
    program.chmod(0o755)
    link.symlink_to("a")
    folder.mkdir()
    found = {
        one.name: records.describe("files", one.name, one.lstat())
        for one in (plain, sparse, program, link, folder)
    }
    assert [one.kind for one in found.values()] == ["f", "f", "x", "l", "d"]
    assert found["a"].size == 3 and found["a"].mtime_ns == plain.lstat().st_mtime_ns
    allocated = found["sparse"].allocated
    assert found["sparse"].size == 2**30 and allocated is not None and allocated < 2**20
    assert found["prog"].mode == 0o755


def test_the_sums_are_read_as_they_were_written() -> None:
    kept = KeptFiles(3, 100, 1, (("a.pem", "looks like a secret"),), 1, "/scratch/copy")
    assert records.decode_kept({"kept": kept.encode()}) == kept
    many = KeptFiles(left=tuple((str(number), "why") for number in range(30)), left_count=30)
    found = records.decode_kept({"kept": many.encode()})
    assert found is not None and len(found.left) == 20 and found.left_count == 30
    for bad in ({}, {"kept": None}, {"kept": {"files": -1}}, {"kept": {**kept.encode(), "bytes": "many"}}):
        assert records.decode_kept(bad) is None
