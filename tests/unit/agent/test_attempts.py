"""From exit records to how an attempt ended: what is proven, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gofer.core import attempts, files, processes, run_layout
from gofer.core.attempts import MOST_RESTARTS, AttemptRecords, judge
from gofer.core.outcome import ExitFields, attempt_record
from gofer.core.states import Reason, State


def record(
    state: str, reason: str | None = None, *, node: int = 0, code: int | None = None, at: float = 50.0
) -> ExitFields:
    """An exit record of a node whose first failure, if it failed, was at `at`."""
    return {
        "node": node,
        "state": state,
        "reason": reason,
        "detail": f"node {node}",
        "exit_code": code,
        "first_failure": {"rank": node, "at": at} if reason == "exit-code" else None,
        "started_at": 10.0 + node,
        "ended_at": 90.0 + node,
        "elapsed_s": 80.0 + node,
    }


Exits = list[ExitFields | None]

GOOD, STOPPED = record("succeeded", code=0), record("cancelled", "user")


def test_all_nodes_succeeded() -> None:
    result = judge(
        AttemptRecords([record("succeeded", code=0), record("succeeded", node=1, code=0)], True),
        restarts=0,
        rebooted=False,
    )
    assert (result.state, result.reason, result.exit_code) == (State.SUCCEEDED, None, 0)
    assert (result.started_at, result.ended_at, result.elapsed_s) == (10.0, 91.0, 81.0)


def test_the_node_that_failed_first_is_the_reason() -> None:
    early, late = (
        record("failed", "exit-code", node=1, code=5, at=20.0),
        record("failed", "exit-code", code=9, at=30.0),
    )
    result = judge(AttemptRecords([late, early], True), restarts=0, rebooted=False)
    assert (result.exit_code, result.detail) == (5, "node 1")


def test_a_failure_counts_more_than_the_nodes_stopped_for_it() -> None:
    failed = record("failed", "exit-code", node=1, code=5)
    mixed: list[Exits] = [[STOPPED, failed], [failed, STOPPED], [None, failed]]
    for exits in mixed:
        result = judge(AttemptRecords(exits, True), restarts=0, rebooted=False)
        assert (result.state, result.reason, result.exit_code) == (State.FAILED, Reason.EXIT_CODE, 5)


def test_one_stopped_node_is_a_stopped_run() -> None:
    result = judge(AttemptRecords([GOOD, STOPPED], True), restarts=0, rebooted=False)
    assert (result.state, result.reason) == (State.CANCELLED, Reason.USER)


def test_a_lost_node_counts_more_than_the_nodes_stopped_for_it() -> None:
    result = judge(
        AttemptRecords([STOPPED, record("lost", "node-failure", node=1)], True), restarts=0, rebooted=False
    )
    assert (result.state, result.reason) == (State.LOST, Reason.NODE_FAILURE)


@pytest.mark.parametrize(
    ("rebooted", "words"), [(False, "its agent was killed"), (True, "the machine restarted")]
)
def test_a_node_that_says_nothing_is_lost(rebooted: bool, words: str) -> None:
    silent: list[Exits] = [[None], [GOOD, None], [STOPPED, None]]
    for exits in silent:
        result = judge(AttemptRecords(exits, True), restarts=0, rebooted=rebooted)
        assert (result.state, result.reason, result.detail) == (State.LOST, Reason.NODE_FAILURE, words)
        assert result.exit_code is None


def test_what_never_started_is_started_again_but_not_for_ever() -> None:
    nothing = AttemptRecords([None, None], False)
    assert judge(nothing, restarts=0, rebooted=False).state == State.QUEUED
    assert judge(nothing, restarts=MOST_RESTARTS - 1, rebooted=False).state == State.QUEUED
    assert judge(nothing, restarts=MOST_RESTARTS, rebooted=False).state == State.LOST
    assert judge(nothing, restarts=0, rebooted=True).state == State.LOST


def node_folder(store: Path, node: int) -> Path:
    path = store / run_layout.node_key("r1", 1, node)
    path.mkdir(parents=True)
    return path


def test_facts_come_from_the_folders(tmp_path: Path) -> None:
    assert attempts.read(str(tmp_path), "r1", 1, 2) == AttemptRecords([None, None], False)
    first = node_folder(tmp_path, 0)
    assert not attempts.read(str(tmp_path), "r1", 1, 2).started
    (first / "setup.log").touch()
    assert not attempts.read(str(tmp_path), "r1", 1, 2).started
    (node_folder(tmp_path, 1) / "rank-1.log").touch()
    assert attempts.read(str(tmp_path), "r1", 1, 2) == AttemptRecords([None, None], True)
    (first / run_layout.EXIT).write_bytes(files.encode(GOOD))
    assert attempts.read(str(tmp_path), "r1", 1, 2).exits == [GOOD, None]


def test_a_torn_exit_record_is_none(tmp_path: Path) -> None:
    (node_folder(tmp_path, 0) / run_layout.EXIT).write_bytes(files.encode(GOOD)[:-5])
    assert attempts.read(str(tmp_path), "r1", 1, 1).exits == [None]


def write_events(store: Path, *events: dict[str, Any]) -> None:
    lines = b"".join(files.encode(one) + b"\n" for one in events)
    (node_folder(store, 0) / run_layout.EVENTS).write_bytes(lines + b'{"torn')


def test_a_killed_attempt_has_the_start_that_its_node_wrote_down(tmp_path: Path) -> None:
    write_events(tmp_path, {"event": "agent", "at": 4.0}, {"event": "started", "at": 5.0, "pids": {"0": 7}})
    (tmp_path / run_layout.node_key("r1", 1, 0) / "rank-0.log").touch()
    result = judge(attempts.read(str(tmp_path), "r1", 1, 1), restarts=0, rebooted=False)
    assert (result.state, result.started_at, result.elapsed_s) == (State.LOST, 5.0, None)
    whole = result.of_run([attempt_record(1, result, [], None)])
    assert (whole.started_at, whole.elapsed_s) == (5.0, None)


def test_the_last_agent_and_its_sessions_are_remembered(tmp_path: Path) -> None:
    write_events(
        tmp_path,
        {"event": "agent", "pid": 11, "start": 1},
        {"event": "agent", "pid": 12, "start": 2},
        {"event": "started", "pids": {"0": 21, "1": 22}},
    )
    assert attempts.agent_of(str(tmp_path), "r1", 1, 0) == processes.ProcessIdentity(12, 2)
    assert attempts.sessions_of(str(tmp_path), "r1", 1, 0) == [21, 22]
    assert attempts.agent_of(str(tmp_path), "r1", 1, 7) is None
    assert attempts.sessions_of(str(tmp_path), "r1", 1, 7) == []
