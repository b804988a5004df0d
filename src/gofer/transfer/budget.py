"""A bound on the bytes that are in memory on their way, and large buffers that are used again.

Freed memory of this size would mostly stay with the process: each thread's allocator keeps what it had.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gofer.transfer.mover import LARGE

# Eight large buffers; with Python and the rest this stays below 150 MiB.
IN_FLIGHT = 64 << 20


class Budget:
    """Threads hold shares of `most` bytes. One that asks for more than there is has it when it is alone."""

    def __init__(self, most: int = IN_FLIGHT) -> None:
        self._most = most
        self._held = 0
        self._change = threading.Condition()
        self._spare: list[bytearray] = []

    @contextmanager
    def share(self, size: int) -> Iterator[None]:
        """Waits until `size` bytes are free, and holds them inside the block."""
        self._take(size)
        try:
            yield
        finally:
            self._give(size)

    def buffer(self, size: int) -> bytearray:
        """At least `size` bytes that nobody else uses, until `release`. Waits as `share` does."""
        self._take(max(size, LARGE))
        with self._change:
            if size <= LARGE and self._spare:
                return self._spare.pop()
            if size > LARGE:
                self._spare.clear()
        return bytearray(max(size, LARGE))

    def release(self, buffer: bytearray) -> None:
        """The buffer is free again."""
        with self._change:
            if len(buffer) == LARGE:
                self._spare.append(buffer)
        self._give(len(buffer))

    def _take(self, size: int) -> None:
        with self._change:
            while self._held and self._held + size > self._most:
                self._change.wait()
            self._held += size

    def _give(self, size: int) -> None:
        with self._change:
            self._held -= size
            self._change.notify_all()
