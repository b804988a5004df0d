"""The queue of an earlier gofer whose machine lost its power is worked off by this version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from home import Home
from recorded.home import RecordedHome


@pytest.fixture
def home(tmp_path: Path) -> Iterator[RecordedHome]:
    made = RecordedHome(tmp_path, "queue")
    yield made
    made.close()


def test_runs_that_ran_or_waited_are_taken_up(home: RecordedHome) -> None:
    """Their private values are read too: the log tells how long the token was."""
    ended, ran, waited = home.document["runs"]
    (home.root / "gate").touch()
    found = Home.wait(home, ended, ran, waited)
    assert [run["state"] for run in found] == ["succeeded"] * 3
    attempts = [[(one["number"], one["state"], one["reason"]) for one in run["attempts"]] for run in found]
    once = [(1, "succeeded", None)]
    assert attempts == [once, [(1, "lost", "node-failure"), (2, "succeeded", None)], once]
    assert [home.log(run) for run in (ended, ran, waited)] == ["up\n13 letters\n"] * 3
    assert home.log(ran, "--attempt", "1") == "up\n"
    assert not list((home.queue_home / "sealed").iterdir())
