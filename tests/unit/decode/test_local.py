"""Files of an earlier gofer on one machine: ledger, queue, run folders, code, packed data, secrets."""

from __future__ import annotations

import json

import pytest
from recorded.home import RecordedHome, view_ids

VIEWS = view_ids("local")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> RecordedHome:
    return RecordedHome(tmp_path_factory.mktemp("local"), "local")


@pytest.mark.parametrize("number", range(len(VIEWS)), ids=VIEWS)
def test_recorded_answers_are_the_same_now(home: RecordedHome, number: int) -> None:
    home.check(number)


def test_every_run_is_listed(home: RecordedHome) -> None:
    listed = json.loads(home.gofer("list", "runs", "--json", "--rows", "--all").out)
    assert {run["id"] for run in listed} == set(home.document["runs"])
    ends = {(run["state"], run["reason"]) for run in listed if run["kind"] == "run"}
    assert ends >= {
        ("succeeded", None),
        ("failed", "exit-code"),
        ("failed", "signal"),
        ("failed", "time-limit"),
        ("failed", "set-up"),
        ("cancelled", "user"),
        ("lost", "node-failure"),
    }


def test_the_ledger_is_rebuilt_from_the_run_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = RecordedHome(tmp_path_factory.mktemp("rebuilt"), "local")
    (home.path / "ledger.db").unlink()
    home.gofer("ledger", "rebuild")
    for number, words in enumerate(VIEWS):
        if not words.startswith(("why", "ls -r --json data", "cat", "config", "secret")):
            home.check(number)


def test_the_target_of_a_run_is_known_when_its_project_has_none(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The ledger keeps the definition of each target that runs were sent to."""
    home = RecordedHome(tmp_path_factory.mktemp("moved"), "local")
    (home.folder / "gofer.yaml").unlink()
    for number, words in enumerate(VIEWS):
        if words.startswith(("q ", "logs")):
            home.check(number)
