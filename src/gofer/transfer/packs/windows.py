"""Reads packs in windows ahead of a reader of single files, so that many small files need few requests.

Keeps at most MOST windows, and never requests one window twice at the same time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

WINDOW = 2 << 20
MOST = 8
_AHEAD = 3


class Windows:
    """`fetch(pack, start, length)` reads the store.

    Any thread may read; `close` ends the requests in progress.
    """

    def __init__(self, fetch: Callable[[str, int, int], bytes]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, int], Future[bytes]] = OrderedDict()
        self._pool: ThreadPoolExecutor | None = None

    def read(self, pack: str, size: int, start: int, length: int) -> bytes:
        """Bytes of a pack that is `size` bytes long. Blocking."""
        first, last = start // WINDOW, (start + length - 1) // WINDOW
        parts = []
        for number in range(first, last + 1):
            data = self._window(pack, size, number).result()
            at = number * WINDOW
            parts.append(data[max(start - at, 0) : start + length - at])
        return b"".join(parts)

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _window(self, pack: str, size: int, number: int) -> Future[bytes]:
        with self._lock:
            # Read ahead only for a reader that came from the window before, or that begins a pack.
            is_sequential = number == 0 or (pack, number - 1) in self._held
            wanted = self._take(pack, size, number)
            for ahead in range(number + 1, number + 1 + _AHEAD if is_sequential else 0):
                if ahead * WINDOW < size:
                    self._take(pack, size, ahead)
            self._held.move_to_end((pack, number))
            while len(self._held) > MOST:
                self._held.popitem(last=False)
            return wanted

    def _take(self, pack: str, size: int, number: int) -> Future[bytes]:
        """The window. Requests it if it is not held, or if the last request failed."""
        held = self._held.get((pack, number))
        if held and not (held.done() and held.exception()):
            return held
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # slow to load for a short command

            self._pool = ThreadPoolExecutor(_AHEAD + 1, "gofer-packs")
        start = number * WINDOW
        future = self._pool.submit(self._fetch, pack, start, min(WINDOW, size - start))
        self._held[pack, number] = future
        return future
