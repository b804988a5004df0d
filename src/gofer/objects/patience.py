"""Trying again: what is worth it, how long to wait in between, and when to stop."""

from __future__ import annotations

import random
import time
from typing import Callable, Mapping, NamedTuple, Optional, TypeVar

from gofer.objects.facts import ObjectsError

T = TypeVar("T")

# Azure answers 500 and 503 when it is busy, S3 503, others 429 and 408.
_WORTH_IT = frozenset({408, 429, 500, 502, 503, 504})


class Policy(NamedTuple):
    """The waits double from `first_s` to `most_s`, each drawn at random from its upper half.

    No try begins after `patience_s`; a service that asks for a longer wait is not waited for. One that is not
    `is_sure` to be there is given up early when it was never heard from: its name may be misspelt.
    """

    tries: int = 10
    first_s: float = 0.2
    most_s: float = 20.0
    patience_s: float = 180.0
    is_sure: bool = False


class Transient(Exception):
    """A failure that may pass. `after_s` is the wait the service asked for; `at_once` needs none."""

    def __init__(self, error: ObjectsError, after_s: Optional[float] = None, at_once: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.after_s = after_s
        self.at_once = at_once


def is_worth_it(status: int) -> bool:
    """Whether an answer with this status may be another one next time."""
    return status in _WORTH_IT


def retry_after_s(headers: Mapping[str, str]) -> Optional[float]:
    """The wait asked for by Retry-After, seconds or a date; None without one that can be read."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
        return max(seconds, 0.0) if seconds == seconds else None  # not NaN, for which nobody can wait
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None


def persist(policy: Policy, act: Callable[[int], T]) -> T:
    """What `act` returns; it is told how often it was tried before. The last ObjectsError when all fail."""
    began = time.monotonic()
    tried = 0
    while True:
        try:
            return act(tried)
        except Transient as failure:
            tried += 1
            wait_s = _wait_s(policy, tried, failure)
            over = time.monotonic() - began + wait_s > policy.patience_s
            if tried >= policy.tries or over:
                raise _given_up(failure, tried, time.monotonic() - began) from None
        time.sleep(wait_s)


def _wait_s(policy: Policy, tried: int, failure: Transient) -> float:
    if failure.at_once:
        return 0.0
    doubled = min(policy.first_s * 2.0 ** (tried - 1), policy.most_s)
    wait_s: float = doubled * random.uniform(0.5, 1.0)
    if failure.after_s is None:
        return wait_s
    # Clients that were turned away together should not come back together.
    return failure.after_s + min(wait_s, 1.0)


def _given_up(failure: Transient, tried: int, took_s: float) -> ObjectsError:
    error = failure.error
    asked = f"; it asks to wait {failure.after_s:.0f} s" if failure.after_s else ""
    error.words += f", {tried} times in {took_s:.0f} s{asked}" if tried > 1 else asked
    return error
