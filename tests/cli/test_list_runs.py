"""`gofer list runs` over a real ledger, as a process."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from terminal import Terminal
from unit.cli.runs import a_group, a_run

from gofer.config.paths import Paths
from gofer.tracking.ledger import Ledger

SOME = 25


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """25 ended runs, of which every fifth failed, and a group of two rows that is older than all of them."""
    now = time.time()
    runs = [
        a_run(
            id=f"r260921-1406{number:02d}-bcdf{number:02d}",
            name=f"run-{number}",
            state="failed" if number % 5 == 0 else "succeeded",
            reason="exit-code" if number % 5 == 0 else None,
            submitted_at=now - 1000 + number,
            gpus=number,
            tags={"lr": f"0.{number}"},
        )
        for number in range(SOME)
    ]
    group = a_group({"succeeded": 2}, id="r260921-140500-ggggg2", name="sweep", submitted_at=now - 2000)
    rows = [
        a_run(
            id=f"{group.id}-{i}", group_id=group.id, row_index=i, args={"i": str(i)}, submitted_at=now - 2000
        )
        for i in range(2)
    ]
    with Ledger.open(Paths.from_environment({"GOFER_HOME": str(tmp_path)}).ledger_file) as ledger:
        ledger.insert([*runs, group, *rows])
    return tmp_path


def _environ(home: Path) -> dict[str, str]:
    return {**os.environ, "GOFER_HOME": str(home), "NO_COLOR": ""}


def _list(home: Path, *words: str) -> tuple[list[str], str]:
    """(lines on stdout, stderr) of `gofer list runs`."""
    argv = [sys.executable, "-m", "gofer", "list", "runs", *words]
    done = subprocess.run(argv, env=_environ(home), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def _names(home: Path, *words: str) -> list[str]:
    return [line.strip() for line in _list(home, "--columns", "name", *words)[0][1:]]


def test_the_newest_twenty_come_first(home: Path) -> None:
    lines, talk = _list(home)
    assert " ".join(lines[0].split()) == "ID NAME STATE REASON TARGET GPUS AGE ELAPSED COMMAND"
    assert len(lines) == 21
    assert lines[1].startswith("bcdf24  run-24  succeeded")
    assert talk == "20 of 26 runs; `--all` shows all\n"


def test_all_and_last(home: Path) -> None:
    assert len(_names(home, "--all")) == SOME + 1
    assert _list(home, "--all")[1] == ""
    assert _names(home, "--last", "2") == ["run-24", "run-23"]
    assert _list(home, "--last", "2")[1] == ""


def test_filters_are_all_to_hold(home: Path) -> None:
    assert _names(home, "--filter", "state=failed", "--filter", "gpus>=15") == ["run-20", "run-15"]
    assert _names(home, "--filter", "tag.lr=0.7") == ["run-7"]
    assert _list(home, "--filter", "name=none-such")[1] == "no run matches\n"


def test_the_order_can_be_chosen_and_turned(home: Path) -> None:
    least = _names(home, "--filter", "state=failed", "--sort", "gpus")
    assert sorted(least) == sorted(["run-0", "run-5", "run-10", "run-15", "run-20"])
    assert _names(home, "--filter", "state=failed", "--sort", "gpus", "--reverse") == least[::-1]


def test_a_group_is_one_line_and_rows_are_shown_on_request(home: Path) -> None:
    lines, _ = _list(home, "--filter", "name=sweep")
    assert "2 ok" in lines[1]
    rows, _ = _list(home, "--group", "ggggg2", "--columns", "short,arg.i")
    assert [row.split() for row in rows[1:]] == [["ggggg2-0", "0"], ["ggggg2-1", "1"]]
    turned, _ = _list(home, "--group", "ggggg2", "--columns", "arg.i", "--reverse", "--last", "1")
    assert turned[1] == "1"
    assert len(_names(home, "--all", "--rows")) > SOME + 1


def test_only_the_runs_of_a_target(home: Path) -> None:
    assert len(_names(home, "-c", "local", "--all")) == SOME + 1
    assert _list(home, "-c", "local", "--filter", "gpus>1000")[1] == "no run matches\n"


def test_a_target_that_nobody_knows_and_a_wrong_column_are_refused(home: Path) -> None:
    target = _refused(home, "-c", "locl")
    assert target == ["error: there is no target `locl`", "hint: did you mean `local`?"]
    error, hint = _refused(home, "--columns", "stat")
    assert error == "error: `stat` is not a column of runs"
    assert hint.startswith("hint: did you mean `state`? The columns are id, short, name, ")
    assert "leave it out" in _refused(home, "-w", "--json")[1]


def test_watch_draws_the_table_again_in_its_place(home: Path) -> None:
    with _watched(home, "--max", "2") as terminal:
        terminal.until("run-23")
        _insert(home, "run-new")
        shown = terminal.until("run-new")
        terminal.interrupt()
        assert terminal.end() == 130
    first, again = shown.index("run-24"), shown.index("run-new")
    assert "\x1b[3F" in shown[first:again], "three lines up: the heading and two runs"
    assert terminal.shown.endswith("\r\n")


def test_watch_in_a_pipe_prints_only_the_runs_that_change(home: Path) -> None:
    argv = [sys.executable, "-m", "gofer", "list", "-w", "--max", "2", "--columns", "name,state"]
    process = subprocess.Popen(argv, env=_environ(home), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        first = [process.stdout.readline().split() for _ in range(3)]
        _insert(home, "run-new")
        again = process.stdout.readline().split()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()
    assert first == [[b"NAME", b"STATE"], [b"run-24", b"succeeded"], [b"run-23", b"succeeded"]]
    assert again == [b"run-new", b"succeeded"]


def _insert(home: Path, name: str) -> None:
    with Ledger.open(Paths.from_environment({"GOFER_HOME": str(home)}).ledger_file) as ledger:
        ledger.insert([a_run(id="r260921-150000-nnnnn2", name=name, submitted_at=time.time())])


def _watched(home: Path, *words: str) -> Terminal:
    argv = [sys.executable, "-m", "gofer", "list", "runs", "-w", *words]
    return Terminal(argv, cwd=home, env=_environ(home))


def _refused(home: Path, *words: str) -> list[str]:
    """The lines on stderr of a `gofer list runs` that is refused."""
    argv = [sys.executable, "-m", "gofer", "list", "runs", *words]
    done = subprocess.run(
        argv, env=_environ(home), cwd=home, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.splitlines()


def test_json_is_an_array_of_runs(home: Path) -> None:
    lines, talk = _list(home, "--json", "--last", "2")
    runs = json.loads("\n".join(lines))
    assert [run["name"] for run in runs] == ["run-24", "run-23"]
    assert runs[0]["command"] == ["python", "train.py", "--data", "voc 20"]
    # The store of these runs is unreachable: the command prints what the ledger has.
    assert runs[0]["logs"] is None
    assert "the store file:///store is not there" in talk


def test_json_of_very_many_runs_is_written_run_by_run_and_looks_the_same(home: Path) -> None:
    few = "\n".join(_list(home, "--json", "--last", "2")[0])
    at = time.time() - 5000
    with Ledger.open(Paths.from_environment({"GOFER_HOME": str(home)}).ledger_file) as ledger:
        ledger.insert(
            [a_run(id=f"r260901-1{number:05d}-bcdfgh", submitted_at=at - number) for number in range(150)]
        )
    many = "\n".join(_list(home, "--json", "--all")[0])
    runs = json.loads(many)
    assert len(runs) == SOME + 1 + 150
    assert many == json.dumps(runs, indent=2, ensure_ascii=False)
    assert many.startswith(few[: few.rindex("}")])


def test_export_writes_every_run(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    lines, talk = _list(home, "--export", str(file))
    assert lines == []
    assert talk == f"26 runs written to {file}\n"
    with open(file, newline="") as stream:
        found = list(csv.DictReader(stream))
    assert len(found) == SOME + 1
    assert found[0]["tag.lr"] == "0.24"


def test_the_ledger_is_shown_when_a_cluster_is_unreachable(home: Path) -> None:
    long_ago = time.time() - 7200
    odd = a_run(
        id="r260921-150000-qqqqq2", state="running", backend="none-such", target="gone", observed_at=long_ago
    )
    with Ledger.open(Paths.from_environment({"GOFER_HOME": str(home)}).ledger_file) as ledger:
        ledger.insert([odd])
    lines, talk = _list(home, "--filter", "state=running")
    assert lines[1].startswith("qqqqq2")
    assert talk.startswith("warning: ")
    assert talk.endswith("showing the state from 2h00m ago\n")
