"""The last program of a job decides from what the nodes told: also when some of it was lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gofer.node.slurm.handoff import Handoff

REQUEST: dict[str, Any] = {
    "id": "r261116-091233-k9qd4x",
    "rows": [],
    "layout": {"nodes": 2},
    "retries": 0,
    "retry_on": ["exit-code"],
}


@pytest.fixture
def handoff(tmp_path: Path) -> Handoff:
    (tmp_path / "handoff").mkdir()
    (tmp_path / "store").mkdir()
    made = Handoff(str(tmp_path / "handoff"))
    # The only question to Slurm here is whether the job is ending.
    (tmp_path / "handoff" / "bin").mkdir()
    (tmp_path / "handoff" / "bin" / "squeue").write_text("#!/bin/sh\necho RUNNING\n")
    (tmp_path / "handoff" / "bin" / "squeue").chmod(0o755)
    made.write("request.json", json.dumps({**REQUEST, "store": str(tmp_path / "store")}).encode())
    return made


def record(state: str, reason: str | None = None, code: int | None = 0) -> dict[str, Any]:
    known = {"state": state, "reason": reason, "detail": None, "exit_code": code, "first_failure": None}
    return {**known, "started_at": 100.0, "ended_at": 160.0, "elapsed_s": 60.0}


def end(
    handoff: Handoff, *, status: int = 0, told: int = 0, restarts: int = 0
) -> tuple[int, dict[str, Any] | None]:
    """The program's own status, and the line that it wrote."""
    argv = [sys.executable, "-m", "gofer.node.slurm.end", handoff.path, str(status), str(told)]
    environ = {
        "SLURM_JOB_ID": "7",
        "SLURM_RESTART_COUNT": str(restarts),
        "PATH": str(Path(handoff.path) / "bin"),
    }
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr, done.stderr
    path = Path(handoff.path).parent / "store" / "runs" / REQUEST["id"] / "ends.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return done.returncode, json.loads(lines[-1]) if lines else None


def publish(handoff: Handoff, attempt: int, *records: dict[str, Any] | None) -> None:
    handoff.publish(None, attempt, "begun", {"at": 90.0 + attempt})
    for node, one in enumerate(records):
        if one is not None:
            handoff.publish(None, attempt, f"exit-{node}", one)


def test_all_succeeded(handoff: Handoff) -> None:
    publish(handoff, 1, record("succeeded"), record("succeeded"))
    status, line = end(handoff)
    assert line is not None and (status, line["state"], len(line["attempts"])) == (0, "succeeded", 1)


def test_one_failed(handoff: Handoff) -> None:
    publish(handoff, 1, record("succeeded"), record("failed", "exit-code", 7))
    status, line = end(handoff)
    assert line is not None and (status, line["state"], line["exit_code"]) == (7, "failed", 7)


def test_one_said_nothing(handoff: Handoff) -> None:
    publish(handoff, 1, record("succeeded"), None)
    _, line = end(handoff, status=137)
    assert line is not None and (line["state"], line["reason"]) == ("lost", "node-failure")
    assert line["detail"] == "node 1 left no record of its end, and srun exited with 137"


def test_what_slurm_ends_is_slurms_to_say(handoff: Handoff) -> None:
    publish(handoff, 1, record("lost", "preempted", None), None)
    assert end(handoff, status=143, told=1) == (143, None)


def test_an_abort_that_killed_the_agents_is_an_abort(handoff: Handoff) -> None:
    handoff.ask_to_stop(None, 0.0)
    publish(handoff, 1, None, None)
    _, line = end(handoff, status=137, told=1)
    assert line is not None and (line["state"], line["reason"]) == ("cancelled", "user")


def test_success_whose_last_word_was_lost_with_the_node_is_not_run_again(handoff: Handoff) -> None:
    publish(handoff, 1, record("succeeded"), record("succeeded"))
    status, line = end(handoff, restarts=1)
    assert line is not None and (status, line["state"], len(line["attempts"])) == (0, "succeeded", 1)


def test_earlier_attempts_are_shown_too(handoff: Handoff) -> None:
    publish(handoff, 1, record("lost", "preempted", None), record("lost", "preempted", None))
    publish(handoff, 2, None, None)
    publish(handoff, 4, record("succeeded"), record("succeeded"))
    _, line = end(handoff, restarts=3)
    assert line is not None
    assert [(one["number"], one["state"], one["reason"]) for one in line["attempts"]] == [
        (1, "lost", "preempted"),
        (2, "lost", "node-failure"),
        (4, "succeeded", None),
    ]


def test_a_retry_that_is_not_possible_is_reported(handoff: Handoff) -> None:
    """There is no `scontrol` here."""
    request = handoff.request()._replace(retries=1).encode()
    handoff.write("request.json", json.dumps(request).encode())
    publish(handoff, 1, record("failed", "exit-code", 7), record("succeeded"))
    _, line = end(handoff)
    assert line is not None and "could not be started again" in line["detail"]


def test_a_double_writes_nothing(handoff: Handoff) -> None:
    assert handoff.claim("6") and not handoff.claim("7")
    publish(handoff, 1, record("succeeded"), record("succeeded"))
    assert end(handoff) == (0, None)
