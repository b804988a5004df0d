"""`gofer query`'s facts, rendered whole against golden files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from unit.cli.runs import NOW, a_group, a_run

from gofer.cli.output.describe import collapse_ranks, describe
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
    shown = describe(facts, now=NOW)
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
    _check("query-running.txt", _facts(row, has_shell=True, usage=[NodeUse(0, 0.0, 4.2, gpus, 812.0, 900.0)]))


def test_a_run_that_has_ended_shows_its_peaks() -> None:
    gpus = (GpuUse(index=0, memory_used_mib=1.0, memory_peak_mib=2048, memory_total_mib=4096, utilisation=3),)
    facts = _facts(a_run(nodes=1, procs=1), usage=[NodeUse(0, 0.0, 229.0, gpus, 12.0, 18.2)])
    shown = describe(facts, now=NOW)
    assert "\npeak       memory 18 MiB\n           GPU 0: 2048 of 4096 MiB, 3 % busy\n" in shown
    assert "ago, 12" not in shown


def test_a_run_on_a_cluster_shows_its_job_hosts_and_page() -> None:
    row = a_run(state="running", ended_at=None, service_id="1234", submitted_at=NOW - 90)
    shown = describe(_facts(row, hosts=("n1", "n2"), page="https://page", has_shell=True), now=NOW)
    lines = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert (lines["state"], lines["job"], lines["hosts"]) == ("running", "1234", "n1, n2")
    assert lines["page"] == "https://page" and lines["shell"] == "gofer ssh k9qd4x"
    assert lines["submitted"].endswith("(1 min ago)")
    assert shown.startswith("state ")


def test_a_state_has_its_colour_and_nothing_else_has() -> None:
    shown = describe(_facts(a_run()), now=NOW, colour=True)
    assert shown.startswith("state      \x1b[32msucceeded\x1b[0m\n")
    assert shown.count("\x1b[") == 2


@pytest.mark.parametrize(
    ("ranks", "shown"),
    [
        (range(8), ["a/rank-{0..7}.log"]),
        (range(8, 13), ["a/rank-{8..12}.log"]),
        (range(4), [f"a/rank-{rank}.log" for rank in range(4)]),
        ((0, 1, 2, 3, 5, 6), [f"a/rank-{rank}.log" for rank in (0, 1, 2, 3, 5, 6)]),
    ],
)
def test_many_ranks_are_one_pattern(ranks: Iterable[int], shown: list[str]) -> None:
    paths = [f"a/rank-{rank}.log" for rank in ranks]
    assert collapse_ranks(["a/setup.log", *paths, "b/rank-0.log"]) == ["a/setup.log", *shown, "b/rank-0.log"]


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


def test_the_time_of_several_attempts_is_that_of_the_last() -> None:
    shown = describe(_facts(a_run(), elapsed_s=2.0, attempts=3), now=NOW)
    assert "elapsed    2.0s (attempt 3)\n" in shown
