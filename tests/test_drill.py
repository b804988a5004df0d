"""The bounded part of the fault drill, and proof that the drill sees what it is there to see.

The whole is `make drill`; docs/fault-drill.md says what it does. A seed that fails here is printed with its
violations, and `python -m drill --seed N` repeats it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from drill.course import NEEDS_ROOT, SCENARIOS, Course
from drill.evidence import Attempt, Run
from drill.home import Home
from drill.round import Round
from drill.tally import Tally
from drill.verdict import Case, judge
from drill.workload import Spec, undisturbed

HERE = [name for name in SCENARIOS if name not in (*NEEDS_ROOT, "hunt")]


def drilled(folder: Path, names: list[str], *, kills: int = 0) -> Course:
    course = Course(folder, seed=int.from_bytes(os.urandom(2), "big"), brief=True)
    course.run(names, kills=kills)
    assert not course.tally.violations, course.tally.render()
    return course


@pytest.mark.drill
@pytest.mark.slow
def test_kills_at_random_points_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    course = drilled(tmp_path, ["hunt"], kills=28)
    assert course.tally.killed >= 28
    assert course.tally.states.total() > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.drill
@pytest.mark.slow
def test_crowds_torn_files_lost_queues_and_clocks_lose_nothing(tmp_path: Path) -> None:
    assert drilled(tmp_path, HERE).tally.rounds.keys() >= {"submitters", "alone", "torn", "queue-lost"}


@pytest.mark.drill
@pytest.mark.slow
@pytest.mark.root
def test_a_full_disk_and_a_restart_lose_nothing(tmp_path: Path) -> None:
    assert drilled(tmp_path, list(NEEDS_ROOT)).tally.rounds == {"disk-full": 1, "reboot": 1}


@pytest.mark.drill
def test_the_drill_sees_a_command_that_ran_twice_or_not_at_all(tmp_path: Path) -> None:
    game = Round("test", 1, Tally(), Home(tmp_path))
    twice, never = game.submit(Spec(1, nap="0.1")), game.submit(Spec(2, nap="0.1"))
    game.printed.add("r261116-000000-bbbbbb")
    assert game.home.run("wait", str(twice), str(never)).returncode == 0
    with (game.home.marks / f"{twice}.1.0").open("a") as file:
        file.write("start\n")
    (game.home.marks / f"{never}.1.0").unlink()
    (game.home.store / "runs" / str(twice) / "left.tmp").write_text("half")
    game.settle()
    told = "\n".join(one.words for one in game.close())
    assert f"{twice} DOUBLED: rank 0 of attempt 1 started 2 times" in told
    assert f"{never} attempt 1 is succeeded and 0 of 1 ranks came to their end" in told
    assert "NEVER recorded: the id r261116-000000-bbbbbb was printed" in told
    assert "left.tmp" in told
    assert len(told.splitlines()) == 4


def case(
    state: str = "succeeded",
    reason: str | None = None,
    exit_code: int | None = 0,
    *,
    end: str = "0",
    marks: dict[int, dict[int, list[str]]] | None = None,
    attempts: list[Attempt] | None = None,
    retries: int = 0,
    struck: set[int] | None = None,
    aborted: bool = False,
) -> Case:
    attempts = [Attempt(1, state, reason, exit_code)] if attempts is None else attempts
    last = attempts[-1] if attempts else Attempt(0, state, reason, exit_code)
    run = Run(
        id="r1",
        owner="r1",
        state=last.state,
        reason=last.reason,
        exit_code=last.exit_code,
        elapsed_s=0.1,
        command=["sh", "command.sh", "0", end],
        ranks=1,
        attempts=attempts,
        tag="1",
        resubmit_of=None,
    )
    marks = {one.number: {0: ["start", "done"]} for one in attempts} if marks is None else marks
    fences = {number: set(ranks) for number, ranks in marks.items()}
    return Case(run, Spec(1, end=end, retries=retries), marks, fences, struck or set(), aborted=aborted)


LOST = ("lost", "node-failure", None)
CLEAN = {
    "it did as it was told": case(),
    "it failed as it was told": case("failed", "exit-code", 7, end="7"),
    "it was killed as it was told": case("failed", "signal", 137, end="SIGKILL"),
    "its agent was killed": case(*LOST, marks={1: {0: ["start"]}}, struck={1}),
    "its agent was killed, then it was tried again": case(
        attempts=[Attempt(1, *LOST), Attempt(2, "succeeded", None, 0)], retries=1, struck={1}
    ),
    "it was aborted while it waited": case("cancelled", "user", None, attempts=[], marks={}, aborted=True),
}
BROKEN = {
    "started 2 times": case(marks={1: {0: ["start", "start", "done"]}}),
    "has not ended": case("running"),
    "instead of": case("failed", "exit-code", 1, end="7"),
    "0 of 1 ranks came to their end": case(marks={1: {0: ["start"]}}),
    "no agent of it was killed": case(*LOST),
    "before anything of it was started": case(*LOST, marks={}, struck={1}),
    "nobody asked for it": case("cancelled", "user", None),
    "was not tried again": case("failed", "exit-code", 7, end="7", retries=1),
    "which are not recorded": case(marks={1: {0: ["start", "done"]}, 2: {0: ["start"]}}),
    "2 attempts with 0 retries": case(
        attempts=[Attempt(1, "failed", "exit-code", 7), Attempt(2, "failed", "exit-code", 7)], end="7"
    ),
    "without an attempt": case("failed", "exit-code", 1, attempts=[], marks={}),
}


@pytest.mark.parametrize("name", CLEAN)
def test_the_verdict_lets_the_truth_pass(name: str) -> None:
    assert list(judge(CLEAN[name])) == []


@pytest.mark.parametrize("words", BROKEN)
def test_the_verdict_names_what_is_untrue(words: str) -> None:
    assert any(words in line for line in judge(BROKEN[words]))


def test_a_command_that_fails_once_is_expected_to_do_better_the_second_time() -> None:
    assert undisturbed("once:SIGTERM", 1) == ("failed", "signal", 143)
    assert undisturbed("once:SIGTERM", 2) == ("succeeded", None, 0)
