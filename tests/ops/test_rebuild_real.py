"""The ledger that watched real runs and the one rebuilt from their folders say the same."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from unit.ops.project import OpsProject

from gofer.config.jobs import JobFlags
from gofer.ops.maintenance.rebuild import rebuild
from gofer.ops.runs.observe import wait
from gofer.ops.session import Session
from gofer.ops.submission.submit import SubmitRequest, submit
from gofer.queue import wake
from gofer.tracking.ledger import RunRow
from gofer.tracking.query import Query

RUNS = [
    SubmitRequest(command=("sh", "-c", "echo hello"), code=False),
    SubmitRequest(command=("sh", "-c", "exit 3"), flags=JobFlags(retries=1), code=False),
    SubmitRequest(command=("sh", "-c", "kill -9 $$"), flags=JobFlags(nodes=2, procs=2), code=False),
    SubmitRequest(command=("sleep", "30"), flags=JobFlags(time_limit_s=0.2), code=False),
    SubmitRequest(command=("true",), flags=JobFlags(setup="exit 5"), code=False),
    SubmitRequest(command=("sh", "-c", "exit {code}"), each=("code=0..3",), code=False),
]


@pytest.fixture
def ended(project: OpsProject) -> Iterator[OpsProject]:
    """A project whose runs have all ended on this machine; afterwards its supervisor has left."""
    ids = [submit(project.session, request).id for request in RUNS]
    wait(project.session, ids, timeout_s=200)
    yield project
    deadline = time.monotonic() + 60
    while wake.poke(str(project.session.paths.queue_home)) and time.monotonic() < deadline:
        time.sleep(0.2)


def all_rows(session: Session) -> dict[str, RunRow]:
    rows = session.ledger.select(Query(include_rows=True, records=True))
    return {row.id: row._replace(submitter="", observed_at=None) for row in rows}


def test_real_runs(ended: OpsProject) -> None:
    before = all_rows(ended.session)
    assert len(before) == len(RUNS) + 4
    assert {row.state for row in before.values()} == {"succeeded", "failed"}
    rebuild(ended.session)
    assert all_rows(ended.session) == before

    # Without the end lines of the queue, the exit records of the nodes prove the same ends. Rows of an array
    # that wrote nothing have no exit record.
    lines = [info.key for info in ended.store.list("runs") if info.key.endswith("/ends.jsonl")]
    ended.store.delete([key for key in lines if before[key.split("/")[1]].kind == "run"])
    rebuild(ended.session)
    for run_id, row in all_rows(ended.session).items():
        known = before[run_id]
        assert (row.state, row.reason, row.exit_code) == (known.state, known.reason, known.exit_code)
        assert (row.started_at, row.ended_at) == (known.started_at, known.ended_at)
