"""Call a function again while it fails for a reason that may pass."""

from __future__ import annotations

import math
import time
from typing import Any, Callable, Optional, Tuple, Type, TypeVar, Union

from gofer.core.sleep import pause

T = TypeVar("T")

# The seconds until the next call, from the error and the number of failures so far. None: there is no next
# call.
Backoff = Callable[[Any, int], Optional[float]]


def retry(
    act: Callable[[], T],
    *,
    errors: Union[Type[Exception], Tuple[Type[Exception], ...]],
    pause_s: Backoff,
    patience_s: Union[float, Callable[[Any], float]] = math.inf,
    before_pause: Callable[[Any], object] = lambda error: None,
    wait: Callable[[float], object] = pause,
) -> T:
    """What `act` returns. Blocks until a call succeeds, and raises the last error when there is no next call.

    Errors other than `errors` pass through at once. No call begins later than `patience_s` after the first
    failure; a function chooses the seconds by the error. `before_pause` gets each error that another call
    follows. `wait` blocks for a pause; an error that it raises ends the calls.
    """
    failures, first_at = 0, 0.0
    while True:
        try:
            return act()
        except errors as error:
            now = time.monotonic()
            first_at = first_at if failures else now
            failures += 1
            seconds = pause_s(error, failures)
            limit_s = patience_s(error) if callable(patience_s) else patience_s
            if seconds is None or now + seconds - first_at > limit_s:
                raise
            before_pause(error)
        wait(seconds)


def backoff(
    first_s: float, *, factor: float = 2.0, most_s: float = math.inf, tries: float = math.inf
) -> Backoff:
    """Pauses that grow from `first_s` by `factor` up to `most_s`; `tries` calls in all."""

    def pause_s(error: Exception, failures: int) -> float | None:
        if failures >= tries:
            return None
        return min(first_s * factor ** min(failures - 1, 64), most_s)

    return pause_s


def retry_if(is_temporary: Callable[[Any], bool], pauses: Backoff) -> Backoff:
    """These pauses, after errors that are temporary. No call follows any other error."""
    return lambda error, failures: pauses(error, failures) if is_temporary(error) else None
