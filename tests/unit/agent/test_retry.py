"""`retry` calls again after errors that may pass, and after no others."""

from __future__ import annotations

import pytest

from gofer.core.retry import backoff, retry, retry_if


class Calls:
    """Fails with these errors, one a call, and then returns "done"."""

    def __init__(self, *errors: Exception) -> None:
        self.made = 0
        self._errors = errors

    def __call__(self) -> str:
        self.made += 1
        if self.made <= len(self._errors):
            raise self._errors[self.made - 1]
        return "done"


def test_the_pauses_grow_until_a_call_succeeds() -> None:
    calls, pauses = Calls(*[OSError("away")] * 4), list[float]()
    growing = backoff(1.0, factor=2.0, most_s=5.0)
    assert retry(calls, errors=OSError, pause_s=growing, wait=pauses.append) == "done"
    assert (calls.made, pauses) == (5, [1.0, 2.0, 4.0, 5.0])


def test_the_last_error_is_raised_after_the_last_try() -> None:
    calls, pauses, said = Calls(*(OSError(str(n)) for n in range(9))), list[float](), list[str]()
    with pytest.raises(OSError, match=r"^2$"):
        retry(
            calls,
            errors=OSError,
            pause_s=backoff(1.0, tries=3),
            before_pause=lambda error: said.append(str(error)),
            wait=pauses.append,
        )
    assert (calls.made, pauses, said) == (3, [1.0, 2.0], ["0", "1"])


def test_other_errors_pass_through_at_once() -> None:
    calls = Calls(OSError("away"), ValueError("wrong"))
    with pytest.raises(ValueError, match="wrong"):
        retry(calls, errors=OSError, pause_s=backoff(0.0), wait=lambda seconds: None)
    assert calls.made == 2


def test_errors_of_the_kind_that_are_not_temporary_are_raised() -> None:
    calls = Calls(OSError(11, "away"), OSError(13, "refused"))
    pauses = retry_if(lambda error: error.errno == 11, backoff(0.0))
    with pytest.raises(OSError, match="refused"):
        retry(calls, errors=OSError, pause_s=pauses, wait=lambda seconds: None)
    assert calls.made == 2


def test_no_call_begins_after_the_patience_for_its_error() -> None:
    calls = Calls(OSError(1, "slow"), OSError(2, "refused"), OSError(1, "slow"))
    with pytest.raises(OSError, match="refused"):
        retry(
            calls,
            errors=OSError,
            pause_s=backoff(10.0, factor=1.0),
            patience_s=lambda error: 3600.0 if error.errno == 1 else 0.0,
            wait=lambda seconds: None,
        )
    assert calls.made == 2


def test_a_wait_that_raises_ends_the_calls() -> None:
    class Stopped(Exception):
        pass

    def wait(seconds: float) -> None:
        raise Stopped

    calls = Calls(OSError("away"))
    with pytest.raises(Stopped):
        retry(calls, errors=OSError, pause_s=backoff(1.0), wait=wait)
    assert calls.made == 1


def test_a_very_long_row_of_failures_has_a_pause() -> None:
    assert backoff(0.1, factor=1.5, most_s=5.0)(OSError(), 10**6) == 5.0
