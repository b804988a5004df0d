"""A bound on the bytes that are in memory on their way, and buffers that are used again."""

from __future__ import annotations

import threading

# Large enough for eight parts at a time, small enough to leave room for all else in 150 MiB.
IN_FLIGHT = 64 << 20
_KEPT = 8


class Budget:
    """Threads hold shares of `most` bytes. One that asks for more than there is has it when it is alone."""

    def __init__(self, most: int = IN_FLIGHT) -> None:
        self._most = most
        self._held = 0
        self._change = threading.Condition()
        self._spare: list[bytearray] = []

    def take(self, size: int) -> None:
        """Waits until `size` bytes are free."""
        with self._change:
            while self._held and self._held + size > self._most:
                self._change.wait()
            self._held += size

    def give(self, size: int) -> None:
        with self._change:
            self._held -= size
            self._change.notify_all()

    def buffer(self, size: int) -> bytearray:
        """At least `size` bytes that nobody else uses, until `release`. Waits as `take` does."""
        self.take(size)
        with self._change:
            for at, spare in enumerate(self._spare):
                if len(spare) >= size:
                    return self._spare.pop(at)
        return bytearray(size)

    def release(self, buffer: bytearray, size: int) -> None:
        """The buffer is free again; `size` is what was asked for."""
        with self._change:
            if len(self._spare) < _KEPT and len(buffer) * _KEPT <= self._most:
                self._spare.append(buffer)
        self.give(size)
