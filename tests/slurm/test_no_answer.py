"""`list` and `q` while `squeue` does not end: they end with what the ledger knows, and its age."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from home import until
from slurm.slurm_home import SlurmHome
from terminal import Terminal, screen

from gofer.text import format_time

pytestmark = ON_SLURM

LATE = "`lab` did not answer within 3 s"


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> SlurmHome:
    made = SlurmHome(tmp_path / "two words", slurm)
    settings = (made.folder / "gofer.yaml").read_text()
    made.configure(settings.replace("targets:\n", "targets:\n  here: {kind: local}\n"))
    return made


@contextmanager
def silent(home: SlurmHome) -> Iterator[None]:
    """While `squeue` does not end, and gofer has no recent answer of it."""
    programs, gate = home.root / "bin", home.root / "squeue gate"
    programs.mkdir()
    os.mkfifo(gate)
    asked = f"echo asked >> '{home.root / 'asked'}'"
    (programs / "squeue").write_text(
        f"""#!/bin/sh\n{asked}\n: < '{gate}'\nexec {shutil.which("squeue")} "$@"\n"""
    )
    (programs / "squeue").chmod(0o755)
    before = home.environ["PATH"]
    home.environ["PATH"] = f"{programs}:{before}"
    for file in (home.queue_home / "slurm").glob("*.json"):
        file.unlink()
    try:
        yield
    finally:
        home.environ["PATH"] = before
        (programs / "squeue").unlink()
        with suppress(OSError):  # nobody waits
            os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))


def test_a_target_that_is_silent_is_shown_as_of_its_last_answer_and_others_as_they_are(
    home: SlurmHome,
) -> None:
    gate = home.root / "gate"
    wait = ("sh", "-c", f"while [ ! -e '{gate}' ]; do sleep 0.05; done")
    far = home.submit("--no-code", "-n", "12", "--single", *wait)
    seen = home.until_view(far, state="running")
    assert seen["stale"] is None
    near = home.submit("--no-code", "-t", "here", *wait)
    waiting = home.submit("--no-code", "-n", "12", "--single", "true")
    with silent(home):
        listed = home.gofer("list", "runs", "--json")
        assert listed.err.count("warning: ") == 1
        assert f"warning: {LATE}; showing the state from " in listed.err
        found = {run["id"]: run for run in json.loads(listed.out)}
        assert (found[far]["state"], found[far]["stale"]) == ("running", LATE)
        assert found[far]["observed_at"] == seen["observed_at"]
        assert (found[near]["state"], found[near]["stale"]) == ("running", None)
        shown = home.gofer("q", waiting, far)
        assert "state" in shown.out and far in shown.out and LATE in shown.err
        assert json.loads(home.gofer("q", "--json", waiting).out)["stale"] == LATE
        assert "asking" not in listed.err + shown.err
    # No command asks now: the program that waits in the background writes the answer down.
    with home.session() as session:

        def answered_at() -> float | None:
            row = session.ledger.get(far)
            return row and row.observed_at

        until(lambda: format_time(answered_at()) != seen["observed_at"], "a later answer")
    gate.touch()
    assert {run["state"] for run in home.wait(far, near, waiting)} == {"succeeded"}


def test_a_terminal_says_what_a_silent_command_waits_for(home: SlurmHome) -> None:
    run = home.submit("--no-code", "sleep", "300")
    home.until_view(run, state="running")
    with silent(home):
        quiet = Terminal(home.argv("abort", "-Q", run), cwd=home.folder, env=home.environ)
        terminal = Terminal(home.argv("why", run), cwd=home.folder, env=home.environ)
        view = Terminal(home.argv("monitor"), cwd=home.folder, env=home.environ)
        view.until(f"{LATE}; showing the state from ")
        assert terminal.until("asking `lab` for the state of 1 run, 3s").startswith("\rasking")
    with quiet, terminal, view:
        assert terminal.end() == 0
        assert screen(terminal.shown)[0].startswith(f"{run[-6:]} ")
        assert "asking" not in "".join(screen(terminal.shown))
        assert quiet.end() == 0
        assert "asking" not in quiet.shown
        view.until("1 cancelled; Ctrl-C")
        view.interrupt()
        assert view.end() == 0
        assert not any("warning" in line for line in screen(view.shown))
    home.wait(run)


@pytest.mark.parametrize("words", [("list", "-w"), ("monitor",)])
def test_a_view_asks_a_silent_cluster_one_question_and_shows_the_others_as_they_change(
    home: SlurmHome, words: tuple[str, ...]
) -> None:
    far = home.submit("--no-code", "--name", "far", "sleep", "300")
    home.until_view(far, state="running")
    with silent(home):
        view = Terminal(home.argv(*words), cwd=home.folder, env=home.environ)
        view.until(f"{LATE}; showing the state from ")
        for number in range(3):
            gate = home.root / f"near gate {number}"
            wait = f"while [ ! -e '{gate}' ]; do sleep 0.05; done"
            near = home.submit("--no-code", "-t", "here", "--name", f"near-{number}", "sh", "-c", wait)
            _until_row(view, near, "running")
            gate.touch()
            _until_row(view, near, "succeeded")
        assert (home.root / "asked").read_text() == "asked\n"
        home.slurm.call("scancel", home.job(far))
    with view:
        _until_row(view, far, "cancelled")
        assert not any(LATE in line for line in screen(view.shown))
        view.interrupt()
        assert view.end() in (0, 130)


def _until_row(view: Terminal, run: str, state: str) -> None:
    """Wait until the line of a run, as the view shows it, has the state."""

    def line() -> str:
        return next((line for line in screen(view.drain()) if line.startswith(run[-6:])), "")

    until(lambda: state in line(), f"{run} {state} in the view")
