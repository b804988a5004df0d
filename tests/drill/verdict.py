"""Checks that a run's final state is correct and that it ran exactly once: pure rules over the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from drill.evidence import FINAL, Attempt, RankMarks, Run
from drill.workload import Spec, undisturbed

# The reasons that are tried again by default and that the drill can bring about.
_RETRIED = ("exit-code", "signal", "node-failure")


class Case(NamedTuple):
    """One run with every disturbance that explains its outcome.

    `struck` are the attempts whose agents were killed from outside, `fences` the ranks of each attempt that
    have a log, `aborted` says that somebody asked for its end, `restarted` that the machine did.
    """

    run: Run
    spec: Spec
    marks: dict[int, RankMarks]
    fences: dict[int, set[int]]
    struck: set[int]
    aborted: bool = False
    restarted: bool = False


def judge(case: Case) -> Iterator[str]:
    """What is wrong, one line each; nothing for a run that is as it must be."""
    yield from _doubled(case)
    run = case.run
    if run.state not in FINAL:
        yield f"has not ended: {run.state}"
        return
    if run.elapsed_s is not None and run.elapsed_s < 0:
        yield f"took {run.elapsed_s} s"
    yield from _numbering(case)
    for attempt in run.attempts:
        yield from _attempt(case, attempt)
    yield from _end(case)


def _doubled(case: Case) -> Iterator[str]:
    for attempt, ranks in case.marks.items():
        for rank, lines in ranks.items():
            if lines.count("start") > 1:
                yield f"DOUBLED: rank {rank} of attempt {attempt} started {lines.count('start')} times"


def _numbering(case: Case) -> Iterator[str]:
    numbers = [one.number for one in case.run.attempts]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"its attempts are numbered {numbers}"
    if len(numbers) > case.spec.retries + 1:
        yield f"{len(numbers)} attempts with {case.spec.retries} retries"
    ghosts = set(case.marks) - set(numbers)
    if ghosts:
        yield f"ran in attempts {sorted(ghosts)}, which are not recorded"


def _attempt(case: Case, attempt: Attempt) -> Iterator[str]:
    name = f"attempt {attempt.number}"
    marks = case.marks.get(attempt.number, {})
    if attempt.state == "lost":
        yield from (f"{name} {words}" for words in _lost(case, attempt, marks))
    elif attempt.state == "cancelled":
        if not case.aborted:
            yield f"{name} is cancelled and nobody asked for it"
    else:
        yield from (f"{name} {words}" for words in _ended_by_itself(case, attempt, marks))


def _lost(case: Case, attempt: Attempt, marks: RankMarks) -> Iterator[str]:
    if attempt.reason != "node-failure":
        yield f"is lost for {attempt.reason}"
    if case.restarted:
        return
    if attempt.number not in case.struck:
        yield "is lost and no agent of it was killed"
    if not marks and not case.fences.get(attempt.number):
        yield "is lost before anything of it was started"


def _ended_by_itself(case: Case, attempt: Attempt, marks: RankMarks) -> Iterator[str]:
    """An attempt that ended by itself must have ended exactly as its command asked for."""
    expected = undisturbed(case.run.command[3], attempt.number)
    if (attempt.state, attempt.reason, attempt.exit_code) != expected:
        yield f"is {attempt.state}, {attempt.reason}, {attempt.exit_code} instead of {tuple(expected)}"
    ended = [rank for rank, lines in marks.items() if "done" in lines]
    needed = case.run.ranks if expected.state == "succeeded" else 1
    if len(ended) < needed:
        yield f"is {attempt.state} and {len(ended)} of {case.run.ranks} ranks came to their end"


def _end(case: Case) -> Iterator[str]:
    run = case.run
    last = run.attempts[-1] if run.attempts else None
    if run.state == "cancelled":
        if not case.aborted:
            yield "is cancelled and nobody asked for it"
        return
    if last is None:
        yield f"is {run.state} without an attempt"
        return
    if (last.state, last.reason, last.exit_code) != (run.state, run.reason, run.exit_code):
        yield f"is {run.state}, {run.reason}, {run.exit_code} and its last attempt {tuple(last[1:])}"
    if last.reason in _RETRIED and len(run.attempts) <= case.spec.retries and not case.aborted:
        yield f"was not tried again after attempt {last.number} of {case.spec.retries + 1}"
