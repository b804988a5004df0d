"""Commands share Slurm's answers: which command asks, how often, and what each run shows."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gofer.backends.base import RunRef
from gofer.backends.polling import LATEST_S, SOONEST_S, ClusterAnswer, Polling, Rows
from gofer.backends.slurm.status import SlurmStatus
from gofer.core.states import Reason, State

NAME = "r261116-091233-k9qd4x"
RUNS: dict[str, Rows] = {NAME: None}


def job(state: str, *, row: int | None = None, raw: str = "7", **more: Any) -> dict[str, Any]:
    known = {"name": NAME, "job": "7", "raw": raw, "row": row, "state": state, "start": 100.0, "end": 160.0}
    return {**known, "nodes": "", "reason": "None", "exit": None, **more}


def gone(**more: Any) -> dict[str, Any]:
    return {"job": "7", "rejected": None, "rows": [None], "stopped": [], "book": [], **more}


class Slurm:
    """A Slurm API that counts its calls."""

    def __init__(self, *jobs: dict[str, Any]) -> None:
        self.jobs = list(jobs)
        self.asked = 0

    def __call__(self, runs: Mapping[str, Rows]) -> dict[str, Any]:
        self.asked += 1
        known = {one["name"] for one in self.jobs}
        return {"jobs": self.jobs, "gone": {name: gone() for name in runs if name not in known}, "ends": {}}


def age(polling: Polling, tmp_path: Path, seconds: float) -> None:
    """Make what is kept older."""
    (path,) = tmp_path.glob("slurm/*.json")
    import msgspec

    result = msgspec.json.decode(path.read_bytes(), type=ClusterAnswer)
    result.at -= seconds
    path.write_bytes(msgspec.json.encode(result))


def test_a_fresh_answer_is_used_again(tmp_path: Path) -> None:
    slurm = Slurm(job("RUNNING"))
    for _ in range(50):
        assert Polling(str(tmp_path), "lab", "slurm").ask(RUNS, slurm).jobs == slurm.jobs
    assert slurm.asked == 1


def test_the_interval_grows_while_nothing_changes_and_is_reset_by_a_change(tmp_path: Path) -> None:
    slurm, polling, seen = Slurm(job("RUNNING")), Polling(str(tmp_path), "lab", "slurm"), list[float]()
    for _ in range(9):
        seen.append(polling.ask(RUNS, slurm).interval_s)
        age(polling, tmp_path, seen[-1])
    assert seen[:3] == [SOONEST_S, 3.0, 4.5]
    assert seen == sorted(seen) and seen[-1] == LATEST_S
    slurm.jobs = [job("COMPLETING")]
    assert polling.ask(RUNS, slurm).interval_s == SOONEST_S


def test_an_idle_hour_costs_no_more_than_one_question_every_thirty_seconds(tmp_path: Path) -> None:
    slurm, polling = Slurm(job("PENDING")), Polling(str(tmp_path), "lab", "slurm")
    for _ in range(3600):
        polling.ask(RUNS, slurm)
        age(polling, tmp_path, 1.0)
    assert slurm.asked <= 3600 / LATEST_S + 8


def test_a_poke_makes_everybody_ask(tmp_path: Path) -> None:
    slurm = Slurm(job("RUNNING"))
    Polling(str(tmp_path), "lab", "slurm").ask(RUNS, slurm)
    Polling(str(tmp_path), "lab", "slurm").poke()
    Polling(str(tmp_path), "lab", "slurm").ask(RUNS, slurm)
    assert slurm.asked == 2


def test_a_run_that_the_answer_does_not_cover_needs_a_new_call(tmp_path: Path) -> None:
    slurm, polling = Slurm(job("RUNNING", row=0)), Polling(str(tmp_path), "lab", "slurm")
    polling.ask({NAME: [0]}, slurm)
    polling.ask({NAME: [0]}, slurm)
    assert slurm.asked == 1
    polling.ask({NAME: [0, 1]}, slurm)
    assert slurm.asked == 2


def test_two_commands_about_different_missing_runs_share_an_answer(tmp_path: Path) -> None:
    slurm, polling = Slurm(), Polling(str(tmp_path), "lab", "slurm")
    for _ in range(10):
        assert NAME in polling.ask({NAME: None}, slurm).gone
        assert "r261116-091233-others" in polling.ask({"r261116-091233-others": None}, slurm).gone
    assert slurm.asked == 2


def test_of_many_at_once_one_asks(tmp_path: Path) -> None:
    slurm = Slurm(job("RUNNING"))
    threads = [
        threading.Thread(target=lambda: Polling(str(tmp_path), "lab", "slurm").ask(RUNS, slurm))
        for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slurm.asked == 1


def test_a_damaged_file_leads_to_a_new_call(tmp_path: Path) -> None:
    slurm, polling = Slurm(job("RUNNING")), Polling(str(tmp_path), "lab", "slurm")
    polling.ask(RUNS, slurm)
    (path,) = tmp_path.glob("slurm/*.json")
    path.write_bytes(b'{"at": 1')
    assert polling.ask(RUNS, slurm).jobs == slurm.jobs


def read(said: ClusterAnswer, *, now: float = 1000.0, run: RunRef | None = None) -> Any:
    reading = SlurmStatus(said, folder="~/.gofer", patience_s=120.0, now=now)
    return reading.of([run or RunRef(NAME)]).get(NAME if run is None else run.id)


def test_of_two_jobs_of_one_name_the_living_counts() -> None:
    found = read(ClusterAnswer(jobs=[job("COMPLETED", raw="7"), job("RUNNING", raw="9")]))
    assert (found.state, found.started_at) == (State.RUNNING, 100.0)


def test_rows_are_identified_by_their_index() -> None:
    result = ClusterAnswer(jobs=[job("PENDING", row=0), job("FAILED", row=1)])
    found = read(result, run=RunRef(f"{NAME}-1", NAME, 1))
    assert (found.state, found.ended_at) == (State.FAILED, 160.0)
    assert found.detail.endswith(f"~/.gofer/slurm/{NAME}/slurm-7_1.out")


def test_a_job_that_was_cancelled_before_it_started_has_no_start() -> None:
    jobs = [job("CANCELLED", row=0, start=160.0), job("CANCELLED", row=1)]
    reading = SlurmStatus(ClusterAnswer(jobs=jobs), folder="f", patience_s=1.0, now=200.0)
    found = reading.of([RunRef(f"{NAME}-{row}", NAME, row) for row in (0, 1)])
    assert [found[f"{NAME}-{row}"].started_at for row in (0, 1)] == [None, 100.0]
    assert {one.ended_at for one in found.values()} == {160.0}


def test_a_run_that_was_never_sent_is_left_out() -> None:
    assert read(ClusterAnswer(gone={NAME: gone(job=None)})) is None
    assert read(ClusterAnswer()) is None


def test_a_refused_run_has_failed() -> None:
    found = read(ClusterAnswer(gone={NAME: gone(job=None, rejected="invalid partition")}))
    assert (found.state, found.reason, found.detail) == (State.FAILED, Reason.REJECTED, "invalid partition")


def test_a_forgotten_job_is_unknown_and_then_lost() -> None:
    result = ClusterAnswer(gone={NAME: gone()}, missing={NAME: 1000.0})
    assert [read(result, now=now).state for now in (1000.0, 1119.0, 1120.0)] == [
        State.UNKNOWN,
        State.UNKNOWN,
        State.LOST,
    ]


def test_the_last_attempt_in_the_books_counts() -> None:
    result = ClusterAnswer(gone={NAME: gone(book=[job("NODE_FAIL"), job("OUT_OF_MEMORY", exit="0:125")])})
    assert (read(result).state, read(result).reason) == (State.FAILED, Reason.OUT_OF_MEMORY)


def test_an_answer_with_lone_surrogates_is_kept(tmp_path: Path) -> None:
    polling = Polling(str(tmp_path), "lab", "slurm")
    end = {"id": NAME, "state": "failed", "detail": "\udcff", "\ud800": 1}
    polling.ask(RUNS, lambda runs: {"jobs": [job("RUNNING")], "gone": {}, "ends": {NAME: end}})
    slurm = Slurm()
    assert polling.ask(RUNS, slurm).ends == {NAME: end}
    assert slurm.asked == 0
