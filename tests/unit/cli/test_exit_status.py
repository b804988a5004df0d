"""The exit status that a run's end becomes."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.cli.runs import NOW, a_group, a_run

from gofer.cli.output.describe import ended_line
from gofer.ops.runs.failures import exit_status, status_of
from gofer.ops.session import Session


@pytest.mark.parametrize(
    ("state", "code", "status"),
    [
        ("succeeded", 0, 0),
        ("succeeded", None, 0),
        ("failed", 3, 3),
        ("failed", 137, 137),
        ("failed", -9, 137),
        ("failed", 0, 1),
        ("failed", None, 1),
        ("failed", 4000, 255),
        ("cancelled", None, 1),
        ("cancelled", 143, 143),
        ("lost", None, 1),
    ],
)
def test_the_status_of_one_run(state: str, code: int | None, status: int) -> None:
    assert status_of(a_run(state=state, exit_code=code)) == status


def test_of_several_runs_the_highest_counts(tmp_path: Path) -> None:
    with Session(environ={"GOFER_HOME": str(tmp_path)}) as session:
        rows = [a_run(), a_run(state="failed", exit_code=7), a_run(state="failed", exit_code=3)]
        assert exit_status(session, rows) == 7
        assert exit_status(session, []) == 0


def test_a_group_ends_as_its_worst_row(tmp_path: Path) -> None:
    group = a_group({"succeeded": 1, "failed": 2}, id="r260921-140640-ggggg2", state="failed")
    codes = [0, 5, 4]
    rows = [
        a_run(
            id=f"{group.id}-{index}",
            group_id=group.id,
            row_index=index,
            state="failed" if code else "succeeded",
            exit_code=code,
        )
        for index, code in enumerate(codes)
    ]
    with Session(environ={"GOFER_HOME": str(tmp_path)}) as session:
        session.ledger.insert([group, *rows])
        assert exit_status(session, [group]) == 5
        assert exit_status(session, [a_group({"succeeded": 3}, state="succeeded")]) == 0


def test_the_line_about_an_end() -> None:
    failed = a_run(state="failed", reason="exit-code", detail="exited with 3", submitted_at=NOW)
    assert ended_line(failed) == "k9qd4x failed (exit-code): exited with 3"
    assert ended_line(a_run()) == "k9qd4x succeeded"
    group = a_group({"succeeded": 2, "failed": 1}, state="failed")
    assert ended_line(group) == "k9qd4x failed: 2 ok, 1 failed"
