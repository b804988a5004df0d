"""New files of a working copy are carried while the command runs: what holds still, and only what is new."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gofer.core.node_request import decode
from gofer.node.code import working_copy
from gofer.node.events import EventLog
from gofer.node.kept import records
from gofer.node.kept.carrier import CarriedCopy, FileCarrier, Rounds, carried_paths
from gofer.node.kept.rules import KeepRules


def write(path: Path, text: str, *, age_s: float = 60.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    at = time.time() - age_s
    os.utime(path, (at, at))


def contents(top: Path) -> dict[str, str]:
    return {str(one.relative_to(top)): one.read_text() for one in top.rglob("*") if one.is_file()}


def copy_of(tmp_path: Path, warnings: list[str], *, limit: int, node: int = 0) -> CarriedCopy:
    code = tmp_path / "code"
    write(code / "train.py", "code")
    (tmp_path / "node").mkdir()
    return CarriedCopy(
        str(code),
        working_copy.scan(str(code)),
        KeepRules.of(decode({"id": "r", "keep_bytes": limit})),
        str(tmp_path / "files"),
        f"node-{node}/" if node else "",
        str(tmp_path / "node" / "files.jsonl"),
        True,
        warnings.append,
        EventLog(str(tmp_path / "node")),
    )


def test_what_holds_still_is_carried_once_and_removed_with_its_file(tmp_path: Path) -> None:
    copy = copy_of(tmp_path, [], limit=1000, node=1)
    code, top = Path(copy.code), Path(copy.top)
    rounds = Rounds(copy)
    write(code / "ck" / "step", "1")
    write(code / "young", "y", age_s=-5)
    write(code / ".env", "secret")
    rounds.carry()
    assert contents(top) == {"node-1/ck/step": "1"}
    assert carried_paths(copy.listing) == {"node-1/ck/step"}
    before = (top / "node-1/ck/step").stat().st_ino
    rounds.carry()
    assert (top / "node-1/ck/step").stat().st_ino == before
    write(code / "ck" / "step", "2")
    write(code / "young", "old")
    rounds.carry()
    assert contents(top) == {"node-1/ck/step": "2", "node-1/young": "old"}
    (code / "young").unlink()
    rounds.carry()
    assert contents(top) == {"node-1/ck/step": "2"}
    (listed,) = records.decode_list(Path(copy.listing).read_bytes())
    assert listed.mtime_ns == (code / "ck/step").stat().st_mtime_ns
    assert b'"carried"' in (tmp_path / "node" / "events.jsonl").read_bytes()


def test_files_over_the_limit_are_reported_once_and_outputs_are_uploaded(tmp_path: Path) -> None:
    warnings: list[str] = []
    copy = copy_of(tmp_path, warnings, limit=10)
    write(Path(copy.code) / "ck ü" / "big", "x" * 100)
    write(Path(copy.code) / "outputs" / "o", "o" * 100)
    rounds = Rounds(copy)
    for _ in range(2):
        rounds.carry()
    assert contents(Path(copy.top)) == {"outputs/o": "o" * 100}
    assert warnings == [
        "the command wrote 100 B beside the code, and `keep` is 10 B: at the end, outputs are kept first, "
        "then the newest files, up to 50.0 GiB (`keep_most`). To keep all of it, submit with `--keep 1KiB`, "
        'or write `outputs: ["ck ü/"]`'
    ]


def test_over_the_limit_the_newest_are_carried_and_older_ones_stay_until_then(tmp_path: Path) -> None:
    """A checkpoint in the store is not removed before a newer one is there."""
    copy = copy_of(tmp_path, [], limit=10)
    code, top = Path(copy.code), Path(copy.top)
    rounds = Rounds(copy)
    write(code / "step-1", "1" * 8, age_s=90)
    rounds.carry()
    write(code / "step-2", "2" * 8, age_s=-5)  # it is still written to
    rounds.carry()
    assert contents(top) == {"step-1": "1" * 8}
    write(code / "step-2", "2" * 8)
    rounds.carry()
    assert contents(top) == {"step-2": "2" * 8}
    assert carried_paths(copy.listing) == {"step-2"}


def test_the_child_ends_on_request(tmp_path: Path) -> None:
    spared: set[int] = set()
    carrier = FileCarrier(copy_of(tmp_path, [], limit=10), spared)
    (pid,) = spared
    carrier.end()
    assert not spared and not os.path.exists(f"/proc/{pid}/stat")
