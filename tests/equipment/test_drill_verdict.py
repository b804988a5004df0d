"""The fault drill reports every violation, and reports none where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from drill.evidence import Attempt, Run
from drill.home import Home
from drill.round import Round
from drill.tally import Tally
from drill.verdict import Case, judge
from drill.workload import Spec, undisturbed


@pytest.mark.drill
def test_the_drill_sees_a_command_that_ran_twice_or_not_at_all(tmp_path: Path) -> None:
    drill_round = Round("test", 1, Tally(), Home(tmp_path))
    twice, never = drill_round.submit(Spec(1, nap="0.1")), drill_round.submit(Spec(2, nap="0.1"))
    drill_round.printed.add("r261116-000000-bbbbbb")
    assert drill_round.home.run("wait", str(twice), str(never)).returncode == 0
    with (drill_round.home.marks / f"{twice}.1.0").open("a") as file:
        file.write("start\n")
    (drill_round.home.marks / f"{never}.1.0").unlink()
    (drill_round.home.store / "runs" / str(twice) / "left.tmp").write_text("half")
    drill_round.settle()
    result = "\n".join(one.words for one in drill_round.close())
    assert f"{twice} DOUBLED: rank 0 of attempt 1 started 2 times" in result
    assert f"{never} attempt 1 is succeeded and 0 of 1 ranks came to their end" in result
    assert "NEVER recorded: the id r261116-000000-bbbbbb was printed" in result
    assert "left.tmp" in result
    assert len(result.splitlines()) == 4


DONE = ("succeeded", None, 0)
LOST = ("lost", "node-failure", None)
ABORTED = ("cancelled", "user", None)
SEVEN = ("failed", "exit-code", 7)


def case(
    *ends: tuple[str, str | None, int | None],
    end: str = "0",
    marks: dict[int, list[str]] | None = None,
    started: bool = True,
    retries: int = 0,
    struck: int = 0,
    aborted: bool = False,
) -> Case:
    """A run of one rank whose attempts ended so; without `started` there is but the last of them."""
    attempts = [Attempt(number, *told) for number, told in enumerate(ends, start=1)] if started else []
    state, reason, exit_code = ends[-1]
    command = ["sh", "command.sh", "0", end]
    run = Run("r1", "r1", state, reason, exit_code, 0.1, command, 1, attempts, "1", None)
    lines = {one.number: ["start", "done"] for one in attempts} if marks is None else marks
    ranks = {number: {0: words} for number, words in lines.items()}
    fences = {number: {0} for number in ranks}
    return Case(run, Spec(1, end=end, retries=retries), ranks, fences, {struck}, aborted=aborted)


CLEAN = {
    "it succeeded as requested": case(DONE),
    "it failed as requested": case(SEVEN, end="7"),
    "it was killed as requested": case(("failed", "signal", 137), end="SIGKILL"),
    "its agent was killed": case(LOST, marks={1: ["start"]}, struck=1),
    "its agent was killed, then it was tried again": case(LOST, DONE, retries=1, struck=1),
    "it was aborted while it waited": case(ABORTED, started=False, aborted=True),
}
BROKEN = {
    "started 2 times": case(DONE, marks={1: ["start", "start", "done"]}),
    "has not ended": case(("running", None, None)),
    "instead of": case(SEVEN, end="3"),
    "0 of 1 ranks came to their end": case(DONE, marks={1: ["start"]}),
    "no agent of it was killed": case(LOST),
    "before anything of it was started": case(LOST, marks={}, struck=1),
    "nobody asked for it": case(ABORTED),
    "was not tried again": case(SEVEN, end="7", retries=1),
    "which are not recorded": case(DONE, marks={1: ["start", "done"], 2: ["start"]}),
    "2 attempts with 0 retries": case(SEVEN, SEVEN, end="7"),
    "without an attempt": case(SEVEN, started=False),
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
