"""Slurm's words in gofer's: states, exit codes, reasons, rows."""

from __future__ import annotations

import pytest

from gofer.backends.base import Waiting
from gofer.backends.scheduled import from_end
from gofer.backends.slurm.facts import explain, waiting
from gofer.backends.slurm.status import exit_code_of, meaning_of
from gofer.core.states import Reason, State
from gofer.remote.api import QueuedJob
from gofer.remote.slurm.status import expand

# JOB STATE CODES of squeue(1) and sacct(1) of Slurm 22.05, and what later versions added.
STATES = {
    "BOOT_FAIL": (State.FAILED, Reason.NODE_FAILURE),
    "CANCELLED": (State.CANCELLED, Reason.USER),
    "COMPLETED": (State.SUCCEEDED, None),
    "CONFIGURING": (State.STARTING, None),
    "COMPLETING": (State.RUNNING, None),
    "DEADLINE": (State.FAILED, Reason.TIME_LIMIT),
    "FAILED": (State.FAILED, Reason.EXIT_CODE),
    "NODE_FAIL": (State.FAILED, Reason.NODE_FAILURE),
    "OUT_OF_MEMORY": (State.FAILED, Reason.OUT_OF_MEMORY),
    "PENDING": (State.QUEUED, None),
    "PREEMPTED": (State.FAILED, Reason.PREEMPTED),
    "RUNNING": (State.RUNNING, None),
    "RESV_DEL_HOLD": (State.QUEUED, None),
    "REQUEUE_FED": (State.QUEUED, None),
    "REQUEUE_HOLD": (State.QUEUED, None),
    "REQUEUED": (State.QUEUED, None),
    "RESIZING": (State.RUNNING, None),
    "REVOKED": (State.UNKNOWN, None),
    "SIGNALING": (State.RUNNING, None),
    "SPECIAL_EXIT": (State.QUEUED, None),
    "STAGE_OUT": (State.RUNNING, None),
    "STOPPED": (State.PAUSED, None),
    "SUSPENDED": (State.PAUSED, None),
    "TIMEOUT": (State.FAILED, Reason.TIME_LIMIT),
    "LAUNCH_FAILED": (State.FAILED, Reason.NODE_FAILURE),
    "RECONFIG_FAIL": (State.FAILED, Reason.NODE_FAILURE),
    "POWER_UP_NODE": (State.STARTING, None),
    "EXPEDITING": (State.QUEUED, None),
    "UPDATE_DB": (State.RUNNING, None),
}


@pytest.mark.parametrize("word", STATES)
def test_every_state_of_slurm_has_a_meaning(word: str) -> None:
    found = meaning_of(word)
    assert (found.state, found.reason) == STATES[word]


@pytest.mark.parametrize("word", ["CANCELLED by 0", "CANCELLED by 1000", "CANCELLED+", "cancelled"])
def test_states_as_accounting_spells_them(word: str) -> None:
    assert meaning_of(word).state == State.CANCELLED


@pytest.mark.parametrize("word", ["", "MARVELLOUS", "  ", "RUN NING", "\x1b"])
def test_a_word_nobody_knows_is_unknown(word: str) -> None:
    assert meaning_of(word).state == State.UNKNOWN


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("0:0", 0),
        ("3:0", 3),
        ("0:9", 137),
        ("1:15", 143),
        (None, None),
        ("", None),
        ("x:y", None),
        ("7", None),
    ],
)
def test_exit_codes_are_as_a_shell_says_them(text: str | None, code: int | None) -> None:
    assert exit_code_of(text) == code


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Resources", "the nodes or GPUs that it needs are in use; it is next in line (Resources)"),
        ("(Priority)", "jobs of higher priority come first (Priority)"),
        (
            "ReqNodeNotAvail, UnavailableNodes:n1",
            "nodes that it needs are down, drained or reserved (ReqNodeNotAvail, UnavailableNodes:n1)",
        ),
        ("QOSMaxGRESPerUser", "its QOS has a limit of GPUs for each user (QOSMaxGRESPerUser)"),
        ("QOSMaxJobsPerUserLimit", "its QOS has a limit of jobs for each user (QOSMaxJobsPerUserLimit)"),
        ("QOSMinGRES", "its QOS has a minimum of GPUs (QOSMinGRES)"),
        ("AssocMaxWallDurationPerJobLimit", "its account or user has a limit of time for each job"),
        ("SomethingNew", "Slurm reports `SomethingNew`"),
    ],
)
def test_reasons_in_plain_words(reason: str, words: str) -> None:
    assert explain(reason).startswith(words)


def test_rows_are_distinguished() -> None:
    assert expand("0-2,4,10-20:5") == [0, 1, 2, 4, 10, 15, 20]
    assert expand("") == expand("N/A") == []


@pytest.mark.parametrize("text", ["²", "1:²", "²:0", "9" * 5000 + ":0", "1:" + "9" * 5000])
def test_an_exit_code_that_is_none(text: str) -> None:
    assert exit_code_of(text) is None


def test_rows_that_no_array_has_are_not_counted() -> None:
    assert expand("1-3:0") == [1, 2, 3]
    assert expand("²,9" + "9" * 5000) == []
    assert len(expand("0-999999999")) == 4_000_001


ODD_ENDS: list[dict[str, object]] = [
    {"id": "x", "state": "no state"},
    {"id": "x", "state": "failed", "attempts": 5},
    {"id": "x", "state": "failed", "attempts": [{"number": "x"}]},
    {"id": "x", "state": "failed", "ended_at": 1e300},
    {"id": "x", "state": "failed", "exit_code": 10**24},
    {"id": "x"},
]


@pytest.mark.parametrize("end", ODD_ENDS)
def test_an_end_that_no_job_writes_says_nothing(end: dict[str, object]) -> None:
    assert from_end("x", end) is None


def test_an_end_is_an_observation() -> None:
    found = from_end(
        "x", {"id": "x", "row": None, "state": "failed", "attempts": [{"number": 1, "state": "lost"}]}
    )
    assert found is not None
    assert (found.state, found.attempts[0].state) == (State.FAILED, State.LOST)


@pytest.mark.parametrize(("days", "is_shown"), [(0.5, True), (365, False)])
def test_an_estimate_a_year_away_is_left_out(days: float, is_shown: bool) -> None:
    at = days * 86400 + 5.0
    job = QueuedJob("7", "PENDING", "Resources", "gpu", at, 0.0, 1.0, 0)
    assert waiting(job, 5.0) == Waiting(explain("Resources"), 0, at if is_shown else None)


def test_a_job_that_slurm_has_not_considered_has_no_code() -> None:
    assert explain("None") == explain("(None)") == "Slurm has not considered it yet"


def test_a_job_whose_nodes_are_being_prepared_waits_for_nothing_else() -> None:
    job = QueuedJob("7", "CONFIGURING", "None", "gpu", None, 0.0, 1.0, 0)
    assert waiting(job, 5.0) is None
