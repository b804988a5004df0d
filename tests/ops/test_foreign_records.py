"""Records in a store that somebody else wrote: one bad record costs that record, and never a command."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from home import Home

END = {"state": "failed", "reason": "exit-code", "exit_code": 3, "attempts": []}
BAD_ENDS: dict[str, str] = {
    "no number": '{"id":"ID","state":"failed","elapsed_s":1e999}',
    "a time beyond all dates": '{"id":"ID","state":"failed","ended_at":1e300}',
    "a code that no process has": '{"id":"ID","state":"failed","exit_code":' + "9" * 24 + "}",
    "nested too deeply": '{"id":"ID","state":"failed","x":' + '{"a":' * 3000 + "1" + "}" * 3001,
    "odd attempts": '{"id":"ID","state":"failed","attempts":[{"number":1,"at":1e999,"exit_code":1e30}]}',
    "a time that is a word": '{"id":"ID","state":"failed","attempts":[{"number":1,"started_at":"x"}]}',
    "Infinity": '{"id":"ID","state":"failed","started_at":Infinity,"detail":"\\ud800"}',
}


@pytest.fixture
def other(home: Home, tmp_path: Path) -> Home:
    """A second home of the same person that reads the store of the first."""
    home.folder.joinpath("gofer.yaml").write_text(
        f"stores: {{shared: {{url: 'file://{home.path}/store'}}}}\n"
    )
    found = Home(tmp_path / "other")
    shutil.copy(home.folder / "gofer.yaml", found.folder / "gofer.yaml")
    return found


def finished(home: Home) -> str:
    return str(home.finish("true")["id"])


def folder_of(home: Home, run: str) -> Path:
    return home.path / "store" / "runs" / run


@pytest.mark.parametrize("name", BAD_ENDS)
def test_an_end_of_an_unknown_form_is_skipped(home: Home, other: Home, name: str) -> None:
    bad, good = finished(home), finished(home)
    (folder_of(home, bad) / "ends.jsonl").write_text(BAD_ENDS[name].replace("ID", bad) + "\n")
    shown = json.loads(other.gofer("list", "runs", "--everywhere", "--json").out)
    assert {run["id"] for run in shown} == {bad, good}
    for words in (
        ["list", "runs"],
        ["q", bad],
        ["why", bad],
        ["ledger", "rebuild"],
        ["list", "runs", "--json"],
        ["q", bad, "--json"],
    ):
        other.gofer(*words)
    other.close()


def spoiled(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    job = {**record["job"], "command": ["echo", "{b}"]}
    return {
        "huge numbers": {**record, "submitted_at": 1e300},
        "a huge layout": {**record, "layout": {**record["layout"], "nodes": 10**24}},
        "rows of another width": {**record, "array": {"columns": ["a"], "rows": [["1", "2"], []]}},
        "a column that is not there": {**record, "array": {"columns": ["a"], "rows": [["1"]]}, "job": job},
        "too many rows": {**record, "array": {"columns": ["a"], "rows": [["1"]] * 100_001}},
    }


def test_a_record_that_cannot_be_is_left_out_and_named(home: Home, other: Home) -> None:
    run, good = finished(home), finished(home)
    path = folder_of(home, run) / "run.json"
    record = json.loads(path.read_text())
    for name, one in spoiled(record).items():
        path.write_text(json.dumps(one))
        done = other.gofer("ledger", "rebuild")
        assert f"runs/{run}/run.json cannot be read and was left out" in done.err, name
        assert good in other.gofer("list", "runs", "--json").out
    os.truncate(path, 3 << 30)  # a sparse file: only its beginning is read
    done = other.gofer("list", "runs", "--everywhere", "--json")
    assert good in done.out
    assert f"runs/{run}/run.json cannot be read and was left out" in done.err
    other.close()


def test_objects_of_code_that_are_too_large_are_not_read_into_memory(home: Home, tmp_path: Path) -> None:
    """Sparse files of 3 GiB cost nobody who plants them anything."""
    (home.folder / "a.py").write_text("1\n")
    home.gofer("submit", "--wait", "cat", "a.py")
    other = Home(tmp_path / "other", prefix=("prlimit", f"--as={2 << 30}"))
    (other.folder / "a.py").write_text("1\n")
    other.folder.joinpath("gofer.yaml").write_text(
        f"stores: {{default: {{url: 'file://{home.path}/store'}}}}\n"
    )
    (index,) = (home.path / "store" / "packs").glob("*.idx")
    notice = home.path / "store" / "removals" / "x.json"
    notice.parent.mkdir(exist_ok=True)
    notice.touch()
    for path in (index, notice):
        os.truncate(path, 3 << 30)
    other.gofer("submit", "--wait", "cat", "a.py")
    other.close()


def test_a_folder_whose_name_is_not_utf8_harms_no_command(home: Home) -> None:
    folder = Path(os.fsdecode(os.fsencode(home.root) + b"/x\xff"))
    (folder / os.fsdecode(b"sub\xfe")).mkdir(parents=True)
    (folder / "a.txt").write_text("content\n")
    home.gofer("submit", "--wait", "cat", "a.txt", cwd=folder)
    home.gofer("submit", "--wait", "sh", "-c", "pwd >&2", cwd=folder / os.fsdecode(b"sub\xfe"))
    home.gofer("ledger", "rebuild")
    assert len(json.loads(home.gofer("list", "runs", "--json").out)) == 2
    for words in (["q", "last"], ["why", "last"], ["prune"], ["list", "runs", "--json"]):
        home.gofer(*words)


@pytest.mark.root
def test_a_link_that_another_user_put_below_assets_is_not_followed(home: Home) -> None:
    run = finished(home)
    precious = home.root / "precious"
    precious.write_text("mine\n")
    shared = home.root / "shared"
    log = shared / "assets" / run / "attempts" / "1" / "node-0" / "rank-0.log"
    log.parent.mkdir(parents=True)
    log.symlink_to(precious)
    home.gofer("q", run, cwd=shared)
    assert precious.read_text() == "mine\n"
    assert not log.is_symlink()
    shutil.rmtree(shared / "assets")
    (home.root / "elsewhere").mkdir()
    (shared / "assets").symlink_to(home.root / "elsewhere")
    home.gofer("q", run, cwd=shared)  # a link of one's own leads to another disk
    os.lchown(shared / "assets", 61001, 61001)
    assert "is a link that belongs to another user" in home.gofer("q", run, cwd=shared, status=1).err


@pytest.mark.root
def test_a_folder_of_another_user_in_a_folder_for_all_is_refused(home: Home) -> None:
    """Its owner could put a link into it at any moment, between the look and the writing."""
    run = finished(home)
    shared = home.root / "shared"
    (shared / "assets").mkdir(parents=True)
    shared.chmod(0o1777)
    os.chown(shared / "assets", 61001, 61001)
    done = home.gofer("q", run, cwd=shared, status=1)
    assert "belongs to another user, in a folder that everybody can write" in done.err
    shared.chmod(0o755)
    home.gofer("q", run, cwd=shared)


def test_a_ledger_with_a_changed_value_is_named_and_rebuilt(home: Home) -> None:
    run = finished(home)
    with contextlib.closing(sqlite3.connect(home.path / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE runs SET tags = 'x'")
    done = home.gofer("list", "runs", status=1)
    assert "ledger.db is damaged: a line has an invalid `tags`" in done.err
    assert "hint: `gofer ledger rebuild`" in done.err
    home.gofer("ledger", "rebuild")
    assert run in home.gofer("list", "runs", "--json").out
