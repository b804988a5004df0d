"""What this process waits for now, in words: an interface can show it when nothing else happens.

Code that calls another machine, or works for a long time, does so in a `with activity("asking `lab` for its
nodes")`. Activities of several threads and inside each other are allowed; the one that began first is shown,
since it has the words nearest to the command. Without an observer, an activity costs microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

# The words of an activity, or a function that says how far it has come. Any thread may call the function.
Words = str | Callable[[], str]

# Activities that follow each other within this time are one time of silence for the person.
_GAP_S = 0.3


class Activity(NamedTuple):
    """What is waited for, and since when by `time.monotonic`, with the activities right before it."""

    words: str
    since: float


class Observer(Protocol):
    """An interface that shows activities. Any thread may call; the methods must not raise."""

    def activity_began(self) -> None:
        """There is an activity now."""

    def activities_ended(self) -> None:
        """There is none any longer."""


class Activities:
    """The activities of a process."""

    def __init__(self) -> None:
        self.observer: Observer | None = None
        self._words: dict[object, Words] = {}
        self._busy_since = self._ended_at = float("-inf")

    def current(self) -> Activity | None:
        """The activity that began first of those that have not ended."""
        words = next(iter(list(self._words.values())), None)
        if words is None:
            return None
        return Activity(words if isinstance(words, str) else words(), self._busy_since)

    @property
    def are_shown(self) -> bool:
        """Whether a person sees what this process waits for, and so can decide to end it."""
        return self.observer is not None

    @contextmanager
    def during(self, words: Words) -> Iterator[None]:
        """While the body of the `with` runs, the process does this."""
        key, now = object(), time.monotonic()
        if not self._words and now - self._ended_at > _GAP_S:
            self._busy_since = now
        self._words[key] = words
        if self.observer is not None:
            self.observer.activity_began()
        try:
            yield
        finally:
            del self._words[key]
            self._ended_at = time.monotonic()
            if self.observer is not None and not self._words:
                self.observer.activities_ended()


activities = Activities()
activity = activities.during
