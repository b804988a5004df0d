"""Files of an earlier gofer on a Slurm cluster: ledger, run folders in a shared folder, folders of jobs."""

from __future__ import annotations

import pytest
from recorded.home import RecordedHome, view_ids

VIEWS = view_ids("slurm")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> RecordedHome:
    return RecordedHome(tmp_path_factory.mktemp("slurm"), "slurm", {"@SITE@": "/nowhere"})


@pytest.mark.parametrize("number", range(len(VIEWS)), ids=VIEWS)
def test_recorded_answers_are_the_same_now(home: RecordedHome, number: int) -> None:
    home.check(number)


def test_the_ledger_is_rebuilt_from_the_run_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = RecordedHome(tmp_path_factory.mktemp("rebuilt"), "slurm", {"@SITE@": "/nowhere"})
    (home.path / "ledger.db").unlink()
    home.gofer("ledger", "rebuild")
    for number in range(len(VIEWS)):
        home.check(number)
