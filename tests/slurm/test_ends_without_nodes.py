"""The end of a run that no node ever began is in its store: for another home, and for a new ledger."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from home import Home
from slurm.slurm_home import SlurmHome

pytestmark = ON_SLURM


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> Iterator[SlurmHome]:
    """A home in an odd folder, with files that the group may write, on a site whose nodes are all taken."""
    before = os.umask(0o002)
    made = SlurmHome(tmp_path / "one  home ü", slurm)
    filler = slurm.sbatch("sleep 300", "-N3", "--exclusive", "-pgpu", "--output=/dev/null", cwd=tmp_path)
    slurm.until_state(filler, "RUNNING")
    yield made
    slurm.call("scancel", filler)
    os.umask(before)


def second(home: SlurmHome) -> Home:
    """A second laptop with the same settings, on which Slurm cannot be asked."""
    other = Home(home.root / "second")
    silent = home.root / "silent"
    silent.mkdir(exist_ok=True)
    for name in ("squeue", "sacct", "scontrol", "sbatch", "scancel"):
        (silent / name).write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
        (silent / name).chmod(0o755)
    other.environ = {**home.environ, "GOFER_HOME": str(other.path), "HOME": str(other.root / "user")}
    other.environ["PATH"] = f"{silent}:{home.environ['PATH']}"
    shutil.copy(home.folder / "gofer.yaml", other.folder)
    return other


def ends(home: Home, run: str) -> list[dict[str, Any]]:
    path = home.store / "runs" / run / "ends.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def known(home: Home, run: str) -> tuple[str, str, str]:
    seen = home.view(run)
    return seen["state"], seen["reason"], seen["detail"]


def test_a_run_that_is_aborted_while_it_waits(home: SlurmHome) -> None:
    run = home.submit("echo", "never")
    job = home.job(run)
    home.gofer("abort", run)
    (end,) = ends(home, run)
    assert (end["id"], end["state"], end["reason"], end["attempts"]) == (run, "cancelled", "user", [])
    assert end["service_id"] == job
    other = second(home)
    assert known(other, run) == ("cancelled", "user", "aborted")
    other.gofer("ledger", "rebuild")
    assert known(other, run) == ("cancelled", "user", "aborted")


def test_what_somebody_else_cancels_is_recorded_by_the_command_that_sees_it(home: SlurmHome) -> None:
    run = home.submit("echo", "never")
    home.slurm.call("scancel", home.job(run))
    assert not (home.store / "runs" / run / "ends.jsonl").exists()
    home.until_view(run, state="cancelled")
    assert [end["state"] for end in ends(home, run)] == ["cancelled"]
    assert known(second(home), run)[0] == "cancelled"


def test_the_rows_of_an_array_are_in_one_list_each_once(home: SlurmHome) -> None:
    group = home.submit("--each", "i=0..4", "echo", "{i}")
    home.gofer("abort", f"{group}-3")
    home.gofer("abort", f"{group}-1")
    assert [end["row"] for end in ends(home, group)] == [3, 1]
    home.gofer("abort", group)
    home.gofer("q", group)
    assert sorted(end["row"] for end in ends(home, group)) == [0, 1, 2, 3, 4]
    assert not (home.store / "runs" / f"{group}-3").exists()
    other = second(home)
    other.gofer("ledger", "rebuild")
    rows = json.loads(other.gofer("list", "runs", "--rows", "--all", "--json").out)
    assert [row["state"] for row in rows if row["group"] == group] == ["cancelled"] * 5


def test_a_refused_job(home: SlurmHome) -> None:
    home.target("partition: nosuch")
    home.gofer("submit", "-Q", "--no-code", "true", status=1)
    run = json.loads(home.gofer("list", "runs", "--json").out)[0]["id"]
    assert known(home, run)[:2] == ("failed", "rejected")
    assert [end["reason"] for end in ends(home, run)] == ["rejected"]
    assert known(second(home), run)[:2] == ("failed", "rejected")


def test_a_run_that_is_aborted_before_it_could_be_sent(home: SlurmHome) -> None:
    away = second(home)
    home.environ, there = away.environ | {"GOFER_HOME": home.environ["GOFER_HOME"]}, home.environ
    home.gofer("submit", "-Q", "--no-code", "true", status=1)
    home.environ = there
    (run,) = [path.name for path in (home.store / "runs").iterdir()]
    (home.store / "runs" / run / "run.json").stat()
    home.gofer("abort", run)
    assert [end["detail"] for end in ends(home, run)] == ["stopped before it reached its cluster"]
    assert known(away, run)[0] == "cancelled"
