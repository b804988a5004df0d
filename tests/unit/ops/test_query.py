"""What `gofer query` knows: why in words, the first failing rank, GPUs, logs, failed rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from unit.ops.project import OpsProject
from unit.ops.run_folders import T0, failure, make_group, make_record

from gofer.model.run import RunRecord
from gofer.ops.runs.failures import FirstFailure, explain, name_signal
from gofer.ops.runs.observe import refresh
from gofer.ops.runs.query import facts
from gofer.ops.submission.ledger_rows import rows_of_record
from gofer.tracking.ledger import RunRow

RUN = "r261116-091233-k9qd4x"


def ended(record: RunRecord, state: str, reason: str | None, **columns: Any) -> RunRow:
    row = rows_of_record(record, store="memory://", submitter="")[0]
    return row._replace(state=state, reason=reason, **columns)


def first(rank: int, exit_code: int | None = None, signal: int | None = None) -> FirstFailure:
    return FirstFailure(1, 0, rank, exit_code, signal, T0, ())


ONE, FOUR = make_record(), make_record(procs=4)
LIMITED = make_record(job={"time_limit_s": 120.0})


@pytest.mark.parametrize(
    ("row", "record", "failed", "words"),
    [
        (ended(ONE, "succeeded", None), ONE, None, None),
        (ended(ONE, "failed", "exit-code", exit_code=1), ONE, first(0, 1), "exited with 1"),
        (ended(FOUR, "failed", "exit-code", exit_code=1), FOUR, first(3, 1), "rank 3 exited with 1"),
        (ended(ONE, "failed", "exit-code", exit_code=2), ONE, None, "exited with 2"),
        (
            ended(ONE, "failed", "exit-code", exit_code=137),
            ONE,
            first(0, 137),
            "exited with 137 (128 + signal 9 (SIGKILL))",
        ),
        (
            ended(ONE, "failed", "signal", exit_code=137),
            ONE,
            first(0, None, 9),
            "killed by signal 9 (SIGKILL)",
        ),
        (ended(ONE, "failed", "signal", exit_code=139), ONE, None, "killed by signal 11 (SIGSEGV)"),
        (
            ended(FOUR, "failed", "signal", exit_code=134),
            FOUR,
            first(2, None, 6),
            "rank 2 was killed by signal 6 (SIGABRT)",
        ),
        (ended(ONE, "failed", "out-of-memory"), ONE, None, "out of memory"),
        (
            ended(FOUR, "failed", "out-of-memory", detail="rank 1 ran out of memory"),
            FOUR,
            first(1, None, 9),
            "rank 1 ran out of memory",
        ),
        (
            ended(LIMITED, "failed", "time-limit", detail="stopped at its time limit of 120 s"),
            LIMITED,
            None,
            "stopped at its time limit of 2m",
        ),
        (
            ended(LIMITED, "failed", "time-limit", detail="set-up reached the time limit"),
            LIMITED,
            None,
            "set-up reached the time limit",
        ),
        (ended(ONE, "failed", "time-limit"), None, None, "stopped at its time limit"),
        (
            ended(ONE, "failed", "set-up", detail="set-up ended with 3: no such package"),
            ONE,
            None,
            "set-up ended with 3: no such package",
        ),
        (ended(ONE, "cancelled", "user"), ONE, None, "stopped by its owner"),
        (ended(ONE, "cancelled", "user", detail="aborted"), ONE, None, "aborted"),
        (
            ended(ONE, "lost", "node-failure", detail="its agent was killed"),
            ONE,
            None,
            "its agent was killed",
        ),
        (ended(ONE, "failed", "rejected", detail="no quota"), ONE, None, "rejected: no quota"),
        (ended(ONE, "failed", "preempted"), ONE, None, "preempted"),
        (ended(ONE, "failed", "gremlins"), ONE, None, "gremlins"),
        (ended(ONE, "queued", None, detail="waits for 4 GPUs"), ONE, None, "waits for 4 GPUs"),
    ],
)
def test_why_in_words(
    row: RunRow, record: RunRecord | None, failed: FirstFailure | None, words: str | None
) -> None:
    assert explain(row, record, failed) == words


def test_a_signal_without_a_name() -> None:
    assert name_signal(63) == "signal 63"


def test_the_first_failing_rank_by_time_over_all_nodes_of_the_last_attempt(project: OpsProject) -> None:
    row = project.add(make_record(RUN, nodes=2, procs=2), state="failed", reason="exit-code", exit_code=1)
    folder = project.run_folder(RUN)
    folder.exit("failed", attempt=1, node=0, first_failure=failure(0, T0 + 1))
    folder.exit("failed", attempt=2, node=0, first_failure=failure(1, T0 + 31))
    folder.exit("failed", attempt=2, node=1, first_failure=failure(3, T0 + 30, signal=11, exit_code=None))
    found = facts(project.session, row)
    assert found.first_failure == FirstFailure(2, 1, 3, None, 11, T0 + 30, ("rank 3 broke",))
    assert found.why == "rank 3 was killed by signal 11 (SIGSEGV)"


def test_broken_and_foreign_files_are_no_crash(project: OpsProject) -> None:
    row = project.add(state="failed", reason="exit-code", exit_code=1)
    node = f"runs/{RUN}/attempts/1/node-0"
    project.store.put(f"{node}/exit.json", b'{"state": "fai')
    project.store.put(f"{node}/heartbeat.json", b"[1, 2]")
    project.store.put(f"runs/{RUN}/attempts/notes/hello.txt", b"mine")
    project.store.put(f"runs/{RUN}/attempts/1/node-x/exit.json", b"{}")
    found = facts(project.session, row)
    assert (found.first_failure, found.usage, found.why) == (None, [], "exited with 1")


def test_gpus_in_use_with_their_age(project: OpsProject) -> None:
    row = project.add(make_record(RUN, nodes=2), state="running", started_at=time.time() - 60)
    gpu = {"index": 4, "name": "Tesla", "memory_used_mib": 1024, "memory_total_mib": 16384, "utilisation": 97}
    folder = project.run_folder(RUN)
    folder.log(b"x")
    folder.heartbeat(time.time() - 7, [gpu], node=0)
    folder.heartbeat(time.time() + 99, [{"index": 5}], node=1)
    first_node, second_node = facts(project.session, row).usage
    assert (first_node.node, second_node.node) == (0, 1)
    assert 7 <= first_node.age_s < 600
    assert second_node.age_s == 0.0  # a clock ahead of ours
    assert first_node.gpus[0].utilisation == 97
    assert second_node.gpus[0].memory_used_mib is None
    assert first_node.rss_mib == 512


def test_facts_of_a_run(project: OpsProject, tmp_path: Path) -> None:
    row = project.add(state="running", started_at=time.time() - 60)
    project.run_folder(RUN).log(b"hello\n", attempt=2)
    found = facts(project.session, row)
    assert found.command == "python train.py 'a  b'"
    assert (found.attempts, found.row.short_id) == (2, "k9qd4x")
    assert found.elapsed_s is not None and 60 <= found.elapsed_s < 600
    assert [path.read_bytes() for path in found.log_paths] == [b"hello\n"]
    assert facts(project.session, row, fetched=[tmp_path / "x.log"]).log_paths == [tmp_path / "x.log"]


def test_a_group_names_its_first_failed_rows(project: OpsProject) -> None:
    project.add(make_group(RUN, 40))
    for index in range(0, 40, 2):
        state = "lost" if index == 4 else "failed"
        word = {"reason": "exit-code", "exit_code": 3} if state == "failed" else {"reason": "node-failure"}
        project.run_folder(RUN).end(state, run_id=f"{RUN}-{index}", row=index, **word)
    refresh(project.session)
    found = facts(project.session, project.get(RUN))
    assert found.row.counts == {"failed": 19, "lost": 1, "pending": 20}
    assert [row.short_id for row in found.failed_rows] == [f"k9qd4x-{index}" for index in range(0, 20, 2)]
    assert found.failed_rows[0].why == "exited with 3"
    assert (found.failed_rows[2].state, found.failed_rows[2].why) == ("lost", "the node failed")
    assert found.failed_rows[1].args == {"seed": "2"}
    assert (found.logs, found.usage, found.first_failure) == ([], [], None)
