"""Retries by reason: what a second try can mend is tried again, and every attempt keeps its log."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from home import Home, until


def attempts(run: dict[str, Any]) -> list[tuple[int, str, str | None, int | None]]:
    return [(one["number"], one["state"], one["reason"], one["exit_code"]) for one in run["attempts"]]


def failing_twice(home: Home, ending: str) -> list[str]:
    """A command that ends badly in its first two attempts."""
    return ["sh", "-c", f'echo "attempt $GOFER_ATTEMPT"; [ "$GOFER_ATTEMPT" = 3 ] || {{ {ending}; }}']


def test_a_failure_is_tried_again_and_every_attempt_keeps_its_log(home: Home) -> None:
    run = home.finish("--retries", "4", *failing_twice(home, "exit 3"))
    assert run["state"] == "succeeded"
    assert run["exit_code"] == 0
    assert attempts(run) == [
        (1, "failed", "exit-code", 3), (2, "failed", "exit-code", 3), (3, "succeeded", None, 0),
    ]  # fmt: skip
    for number in (1, 2, 3):
        assert home.log(run["id"], "--attempt", str(number)) == f"attempt {number}\n"
    assert home.log(run["id"]) == "attempt 3\n"


def test_retries_run_out(home: Home) -> None:
    run = home.finish("--retries", "1", "sh", "-c", "exit 3")
    assert (run["state"], run["exit_code"]) == ("failed", 3)
    assert attempts(run) == [(1, "failed", "exit-code", 3), (2, "failed", "exit-code", 3)]


def test_only_the_reasons_that_were_named_are_tried_again(home: Home) -> None:
    words = ["--retries", "2", "--retry-on", "signal,node-failure"]
    assert len(home.finish(*words, "sh", "-c", "exit 3")["attempts"]) == 1
    assert len(home.finish(*words, *failing_twice(home, "kill -9 $$"))["attempts"]) == 3


def test_what_would_only_happen_again_is_not_tried_again(home: Home) -> None:
    late = home.finish("--retries", "2", "--time-limit", "0.5s", "--grace", "0", "sleep", "100")
    assert attempts(late) == [(1, "failed", "time-limit", 128 + signal.SIGTERM)] or attempts(late) == [
        (1, "failed", "time-limit", 128 + signal.SIGKILL)
    ]
    hungry = home.finish("--retries", "2", "python", "-c", "raise MemoryError")
    assert attempts(hungry) == [(1, "failed", "out-of-memory", 1)]
    unready = home.finish("--retries", "2", "--setup", "exit 1", "true")
    assert [(one["state"], one["reason"]) for one in unready["attempts"]] == [("failed", "set-up")]


@pytest.mark.slow
def test_a_time_limit_is_retried_on_request(home: Home) -> None:
    words = ["--retries", "1", "--retry-on", "time-limit", "--time-limit", "10s", "--grace", "0"]
    run = home.finish(*words, "sh", "-c", '[ "$GOFER_ATTEMPT" = 2 ] || sleep 100')
    assert [one["reason"] for one in run["attempts"]] == ["time-limit", None]


def test_an_aborted_run_is_not_tried_again(home: Home) -> None:
    run = home.submit("--retries", "5", "sh", "-c", "trap 'exit 3' TERM; echo up; sleep 100 & wait")
    home.until_logged(run, "up")
    home.gofer("abort", run)
    seen = home.view(run)
    assert (seen["state"], len(seen["attempts"])) == ("cancelled", 1)


def test_a_run_between_two_attempts_can_be_aborted(home: Home) -> None:
    run = home.submit("--retries", "9", "sh", "-c", "exit 3")
    until(lambda: len(home.view(run)["attempts"]) >= 2, "two attempts")
    home.gofer("abort", run)
    seen = home.view(run)
    assert (seen["state"], seen["reason"]) == ("cancelled", "user")
