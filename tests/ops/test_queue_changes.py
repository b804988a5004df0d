"""Waiting for runs of this machine is ended by the queue, not by a clock."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from home import until
from unit.ops.project import OpsProject

from gofer.ops.runs.observe import QueueChanges, refresh, wait
from gofer.ops.submission.submit import SubmitRequest, submit
from gofer.tracking.ledger import RunRow

LONGER_THAN_ANY_TEST_S = 10_000.0


@pytest.mark.parametrize("is_late", [True, False], ids=["after the sleep began", "before"])
def test_the_end_of_a_run_ends_the_sleep(project: OpsProject, tmp_path: Path, is_late: bool) -> None:
    gate = tmp_path / "gate"
    command = ("sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    row = submit(project.session, SubmitRequest(command=command, code=False))
    until(lambda: _state(project, row) == "running", "the run to start")
    changes = QueueChanges(project.session, [row])
    sleeper = threading.Thread(target=lambda: changes.sleep(LONGER_THAN_ANY_TEST_S, least_s=0.0), daemon=True)
    if is_late:
        sleeper.start()
    gate.touch()
    if not is_late:
        wait(project.session, [row.id], timeout_s=60)
        sleeper.start()
    sleeper.join(60)
    assert not sleeper.is_alive()
    wait(project.session, [row.id], timeout_s=60)


def _state(project: OpsProject, row: RunRow) -> str:
    refresh(project.session, [row])
    return project.session.ledger.resolve(row.id).state
