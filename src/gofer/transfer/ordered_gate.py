"""Lets threads pass one after the other, in the order of their numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class OrderedGate:
    """A gate for threads with numbers from 0. Every number must pass once, or later numbers wait for ever."""

    def __init__(self) -> None:
        self._next = 0
        self._lock = threading.Lock()
        self._waiting: dict[int, threading.Event] = {}

    @contextmanager
    def turn(self, number: int) -> Iterator[None]:
        """Wait for the numbers before this one; later numbers wait until the block ends."""
        self._await(number)
        try:
            yield
        finally:
            self._pass_on()

    def _await(self, number: int) -> None:
        with self._lock:
            if number == self._next:
                return
            gate = self._waiting[number] = threading.Event()
        gate.wait()

    def _pass_on(self) -> None:
        """Wake the thread with the next number, and no other."""
        with self._lock:
            self._next += 1
            gate = self._waiting.pop(self._next, None)
        if gate:
            gate.set()
