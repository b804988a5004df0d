"""Runs one function in a thread while the caller does something else."""

from __future__ import annotations

import threading
from typing import Callable, Generic, List, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Starts at once. A caller may drop it: its daemon thread ends with the work or with the program."""

    def __init__(self, act: Callable[[], T]) -> None:
        self._act = act
        self._done: List[T] = []
        self._raised: List[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="gofer-ahead", daemon=True)
        self._thread.start()

    def result(self) -> T:
        """Wait for the result, or raise what the function raised."""
        self._thread.join()
        if self._raised:
            raise self._raised[0]
        return self._done[0]

    def _run(self) -> None:
        try:
            self._done.append(self._act())
        except BaseException as error:  # `result` raises it in the caller's thread
            self._raised.append(error)
