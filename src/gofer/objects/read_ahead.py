"""One thing done in a thread while its caller is busy with another."""

from __future__ import annotations

import threading
from typing import Callable, Generic, List, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Begins at once. Whoever loses interest may forget it: the thread ends with its work or the program."""

    def __init__(self, act: Callable[[], T]) -> None:
        self._act = act
        self._done: List[T] = []
        self._raised: List[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="gofer-ahead", daemon=True)
        self._thread.start()

    def result(self) -> T:
        """Waits for it; raises what it raised."""
        self._thread.join()
        if self._raised:
            raise self._raised[0]
        return self._done[0]

    def _run(self) -> None:
        try:
            self._done.append(self._act())
        except BaseException as error:  # raised again where the result is asked for
            self._raised.append(error)
