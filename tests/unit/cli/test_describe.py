"""`gofer query`'s facts, rendered whole against golden files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from unit.cli.runs import a_group, a_run

from gofer.cli.output.describe import describe
from gofer.ops.runs.failures import FirstFailure
from gofer.ops.runs.node_reports import NodeUse
from gofer.ops.runs.query import FailedRow, RunDetails
from gofer.ops.runs.run_folder import GpuUse
from gofer.text import quote_command
from gofer.tracking.ledger import RunRow

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def _facts(row: RunRow, **known: object) -> RunDetails:
    plain = RunDetails(
        row=row,
        command=quote_command(row.command),
        why=None,
        elapsed_s=row.elapsed_s,
        attempts=len(row.attempts),
        first_failure=None,
        logs=[],
        log_paths=[],
        usage=[],
        failed_rows=[],
    )
    return plain._replace(**known)  # type: ignore[arg-type]


def _check(name: str, facts: RunDetails) -> None:
    shown = describe(facts)
    assert os.linesep == "\n"
    assert shown == (GOLDEN / name).read_text()


def test_a_run_that_succeeded() -> None:
    _check(
        "query-succeeded.txt",
        _facts(a_run(tags={"lr": "0.1", "baseline": ""}), log_paths=[Path("assets/r1/rank-0.log")]),
    )


def test_a_run_that_failed_on_several_nodes() -> None:
    failure = FirstFailure(
        1, 1, 5, 3, None, None, ("Traceback (most recent call last):", "ValueError: \x1b[31mbad")
    )
    row = a_run(state="failed", reason="exit-code", exit_code=3, attempts=[{"number": 1}, {"number": 2}])
    paths = [Path(f"assets/r1/attempts/2/node-{node}/rank-{node * 4}.log") for node in (0, 1)]
    _check(
        "query-failed.txt", _facts(row, why="rank 5 exited with 3", first_failure=failure, log_paths=paths)
    )


def test_a_run_that_is_running_on_gpus() -> None:
    gpus = (
        GpuUse(
            index=0,
            name="NVIDIA H200",
            memory_used_mib=1024.4,
            memory_total_mib=143771,
            utilisation=97,
            memory_peak_mib=2048,
            utilisation_peak=100,
        ),
        GpuUse(index=1),
    )
    row = a_run(state="running", ended_at=None, exit_code=None, nodes=1, procs=1, gpus=2)
    _check("query-running.txt", _facts(row, usage=[NodeUse(0, 0.0, 4.2, gpus, 812.0, 900.0)]))


def test_a_group_with_failed_rows() -> None:
    row = a_group(
        {"succeeded": 990, "failed": 3, "lost": 1, "queued": 7}, state="queued", command=["t", "{lr}"]
    )
    failed = [
        FailedRow(
            "r260921-140640-k9qd4x-17", "k9qd4x-17", {"lr": "0.1", "seed": "3"}, "failed", "exited with 1"
        ),
        FailedRow("r260921-140640-k9qd4x-18", "k9qd4x-18", {"lr": "0.1", "seed": "4"}, "lost", None),
    ]
    _check("query-group.txt", _facts(row, failed_rows=failed))
