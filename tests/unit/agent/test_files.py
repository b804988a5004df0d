"""Small durable writes: whole or not at all, torn lines survived, a full disk waited out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gofer.core import files


def test_whole_writes_replace_and_leave_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    files.write_whole(str(path), b"old and longer")
    files.write_whole(str(path), b"new", durable=True)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["record.json"]


def test_the_mode_is_kept_from_the_first_byte_on(tmp_path: Path) -> None:
    files.write_whole(str(tmp_path / "x"), b"", mode=0o600)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        files.write_whole(str(tmp_path / "folder"), b"a file cannot replace a folder")
    assert os.listdir(tmp_path) == ["folder"]


def test_appending_after_a_torn_line_closes_it_off(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    files.append(str(path), b'{"a":1}\n')
    path.write_bytes(path.read_bytes() + b'{"b":')
    files.append(str(path), b'{"c":3}\n')
    assert list(files.read_lines(path.read_bytes())) == [{"a": 1}, {"c": 3}]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"{", b"[1]\n", b"null\n5\n", b"\xff\xfe\n"])
def test_lines_that_are_no_objects_are_skipped(data: bytes) -> None:
    assert list(files.read_lines(data + b'\n{"a":1}\n')) == [{"a": 1}]


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": '])
def test_a_file_that_is_not_a_whole_object_reads_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    assert files.read_json(str(tmp_path / "x")) is None
    assert files.read_json(str(tmp_path / "absent")) is None
    assert files.read_json(str(tmp_path / "x" / "below a file")) is None


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    files.write_whole(str(tmp_path / "x"), files.encode({"name": "a\udcff"}))
    assert files.read_json(str(tmp_path / "x")) == {"name": "a\udcff"}


def test_the_tail_is_read_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(100_000)) + b"\xff no newline")
    assert files.tail_lines(str(path), 2) == ["line 99999", "\ufffd no newline"]
    assert len(files.tail_lines(str(path), 10**6)) < 3000
    assert files.tail_lines(str(tmp_path / "absent"), 5) == []


def test_a_full_disk_is_waited_out() -> None:
    tries: list[int] = []

    def write() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "no space left on device")
        return "written"

    assert files.retry_while_full(write) == "written"
    assert len(tries) == 3


def test_patience_ends_and_other_errors_get_none() -> None:
    def full() -> None:
        raise OSError(errno.EDQUOT, "quota exceeded")

    with pytest.raises(OSError, match="quota"):
        files.retry_while_full(full, patience_s=0.0)

    tries: list[int] = []

    def broken() -> None:
        tries.append(1)
        raise PermissionError(errno.EACCES, "permission denied")

    with pytest.raises(PermissionError):
        files.retry_while_full(broken)
    assert len(tries) == 1
