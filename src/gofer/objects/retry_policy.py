"""Retries: which failures are worth one, how long to wait before it, and when to give up."""

from __future__ import annotations

import itertools
import random
import time
from typing import Callable, Mapping, NamedTuple, Optional, TypeVar

from gofer.core.retry import retry
from gofer.objects.facts import ObjectsError

T = TypeVar("T")

# A busy Azure answers 500 and 503, a busy S3 503, other services 429 and 408.
_WORTH_IT = frozenset({408, 429, 500, 502, 503, 504})


class Policy(NamedTuple):
    """When to retry. The pauses double from `first_s` to `most_s`; each is random within its upper half.

    No try begins after `patience_s`, and a service that asks for a longer pause is not retried. With
    `is_sure`, the address is known to be right. Otherwise a service that has never answered gets fewer tries,
    because its name may be misspelled.
    """

    tries: int = 10
    first_s: float = 0.2
    most_s: float = 20.0
    patience_s: float = 180.0
    is_sure: bool = False


class Transient(Exception):
    """A failure that may be temporary.

    `after_s` is the pause that the service asks for; `at_once` needs none.
    """

    def __init__(self, error: ObjectsError, after_s: Optional[float] = None, at_once: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.after_s = after_s
        self.at_once = at_once


def is_worth_it(status: int) -> bool:
    """Whether a retry may get another answer than this status."""
    return status in _WORTH_IT


def retry_after_s(headers: Mapping[str, str]) -> Optional[float]:
    """The pause of Retry-After, given as seconds or as a date; None without a valid value."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
        return max(seconds, 0.0) if seconds == seconds else None  # NaN is not a pause
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None


def retry_request(policy: Policy, act: Callable[[int], T]) -> T:
    """What `act` returns, after retries. Blocking. `act` gets the number of tries before it.

    Raises the last ObjectsError when all tries fail.
    """
    began = time.monotonic()
    tries = itertools.count()

    def pause_s(failure: Transient, tried: int) -> Optional[float]:
        wait_s = _wait_s(policy, tried, failure)
        is_over = time.monotonic() - began + wait_s > policy.patience_s
        return None if tried >= policy.tries or is_over else wait_s

    try:
        return retry(lambda: act(next(tries)), errors=Transient, pause_s=pause_s)
    except Transient as failure:
        raise _given_up(failure, next(tries), time.monotonic() - began) from None


def _wait_s(policy: Policy, tried: int, failure: Transient) -> float:
    if failure.at_once:
        return 0.0
    doubled = min(policy.first_s * 2.0 ** (tried - 1), policy.most_s)
    wait_s: float = doubled * random.uniform(0.5, 1.0)
    if failure.after_s is None:
        return wait_s
    # The random part keeps clients apart that the service has refused at the same moment.
    return failure.after_s + min(wait_s, 1.0)


def _given_up(failure: Transient, tried: int, took_s: float) -> ObjectsError:
    error = failure.error
    wish = f"; it asks to wait for {failure.after_s:.0f} s" if failure.after_s else ""
    error.words += f", {tried} times in {took_s:.0f} s{wish}" if tried > 1 else wish
    return error
