"""Limits the bytes that a transfer holds in memory, and reuses large buffers.

Freed buffers of this size would mostly stay with the process, because each thread's allocator keeps them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gofer.transfer.mover import LARGE

# Eight large buffers. The whole process then stays below 150 MiB.
IN_FLIGHT = 64 << 20


class Budget:
    """Threads take shares of `most` bytes. A larger request waits until nothing else is taken."""

    def __init__(self, most: int = IN_FLIGHT) -> None:
        self._most = most
        self._held = 0
        self._change = threading.Condition()
        self._spare: list[bytearray] = []

    @contextmanager
    def share(self, size: int) -> Iterator[None]:
        """Wait until `size` bytes are free, and hold them inside the block."""
        self._take(size)
        try:
            yield
        finally:
            self._give(size)

    def buffer(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes, for this caller until `release`. Waits as `share` does."""
        self._take(max(size, LARGE))
        with self._change:
            if size <= LARGE and self._spare:
                return self._spare.pop()
            # Make room: a buffer of this size cannot come from the spare ones.
            if size > LARGE:
                self._spare.clear()
        return bytearray(max(size, LARGE))

    def release(self, buffer: bytearray) -> None:
        """Return the buffer."""
        with self._change:
            if len(buffer) == LARGE:
                self._spare.append(buffer)
        self._give(len(buffer))

    def _take(self, size: int) -> None:
        with self._change:
            # Without `_held`, a request above the limit would wait for ever.
            while self._held and self._held + size > self._most:
                self._change.wait()
            self._held += size

    def _give(self, size: int) -> None:
        with self._change:
            self._held -= size
            self._change.notify_all()
