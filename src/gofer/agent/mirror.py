"""Brings what runs write into their folders here to an object store: while they write, and for good at their
end.

An object cannot grow, so a log goes up in parts, `<key>.parts/<start>`, a few seconds behind its writer.
Many small parts are replaced by a larger one now and then. At the end the whole file takes the place of its
parts. Readers join the parts (`gofer.ops.joined`), so it does not matter which of these states they see.
"""

from __future__ import annotations

import fnmatch
import os
import time
from typing import Iterator, Protocol, Sequence

from gofer.agent import folder

PART_BYTES = 4 * 1024 * 1024
_MOST_SMALL_PARTS = 32
_GROWING = (".log", ".jsonl")
# A file of the outputs that is sent while the run runs must have been left alone for this long.
_SETTLED_S = 2.0


class Objects(Protocol):
    """What a mirror needs of gofer.agent.objects."""

    def put(self, key: str, data: bytes) -> None: ...

    def put_file(self, key: str, path: str) -> None: ...

    def list(self, prefix: str) -> Iterator[tuple[str, int, float]]: ...

    def delete(self, keys: Sequence[str]) -> int: ...


class _Growing:
    """A file that only grows, and the parts of it that are in the store."""

    def __init__(self, parts: dict[int, int]) -> None:
        self.parts = parts
        self.is_whole = False

    @property
    def sent(self) -> int:
        return max((start + size for start, size in self.parts.items()), default=0)


class Mirror:
    """One store folder on this machine, `spool`, and the object store it goes to. One thread."""

    def __init__(self, spool: str, objects: Objects, *, sync: Sequence[str] = ()) -> None:
        self.spool = spool
        self.objects = objects
        self._sync = tuple(sync)
        self._growing: dict[str, _Growing] = {}
        self._stamps: dict[str, tuple[int, int]] = {}
        self._listed: set[str] = set()

    def look(self, run_id: str) -> None:
        """Send what is new in a run's folder. Whatever the store raises passes through; call again later."""
        self._learn(run_id)
        for key, path in self._files(run_id):
            if key.endswith(_GROWING):
                self._send_growth(key, path)
            elif not key.startswith(folder.outputs_key(run_id) + "/") or self._is_synced(key, path, run_id):
                self._send_changed(key, path)

    def finish(self, run_id: str) -> None:
        """Send everything, whole: after this the run's folder here is not needed any more."""
        self._learn(run_id)
        for key, path in self._files(run_id):
            if key.endswith(_GROWING) and key != folder.ends_key(run_id):
                self._send_whole(key, path)
            elif not key.endswith(_GROWING):
                self._send_changed(key, path)

    def send_ends(self, request_id: str, *, is_over: bool) -> None:
        """The list of ends of a run or group: grown by a part, or whole when no more will come."""
        key = folder.ends_key(request_id)
        self._learn(request_id)
        path = os.path.join(self.spool, key)
        if os.path.exists(path):
            (self._send_whole if is_over else self._send_growth)(key, path)

    def _learn(self, run_id: str) -> None:
        """After a restart the store itself tells which parts it has."""
        if run_id in self._listed:
            return
        for key, size, _ in self.objects.list(folder.run_key(run_id)):
            whole, mark, start = key.rpartition(".parts/")
            if mark:
                self._growing.setdefault(whole, _Growing({})).parts[int(start)] = size
        self._listed.add(run_id)

    def _files(self, run_id: str) -> Iterator[tuple[str, str]]:
        top = os.path.join(self.spool, folder.run_key(run_id))
        for where, _, names in os.walk(top):
            for name in sorted(names):
                path = os.path.join(where, name)
                if not name.endswith(".tmp") and os.path.isfile(path):
                    yield os.path.relpath(path, self.spool), path

    def _is_synced(self, key: str, path: str, run_id: str) -> bool:
        name = os.path.relpath(key, folder.outputs_key(run_id))
        wanted = any(fnmatch.fnmatch(name, pattern) for pattern in self._sync)
        return wanted and time.time() - os.stat(path).st_mtime >= _SETTLED_S

    def _send_changed(self, key: str, path: str) -> None:
        status = os.stat(path)
        stamp = (status.st_size, status.st_mtime_ns)
        if self._stamps.get(key) != stamp:
            self.objects.put_file(key, path)
            self._stamps[key] = stamp

    def _send_growth(self, key: str, path: str) -> None:
        state = self._growing.setdefault(key, _Growing({}))
        with open(path, "rb") as file:
            file.seek(state.sent)
            while True:
                data = file.read(PART_BYTES)
                if not data:
                    break
                start = state.sent
                self.objects.put(part_key(key, start), data)
                state.parts[start] = len(data)
        if sum(size < PART_BYTES for size in state.parts.values()) > _MOST_SMALL_PARTS:
            self._merge(key, path, state)

    def _merge(self, key: str, path: str, state: _Growing) -> None:
        """Replace the small parts at the end by as few as hold them; the larger covers the smaller at any
        moment.
        """
        small = sorted(start for start, size in state.parts.items() if size < PART_BYTES)
        first, end = small[0], state.sent
        kept = {start: size for start, size in state.parts.items() if start < first}
        with open(path, "rb") as file:
            file.seek(first)
            start = first
            while start < end:
                data = file.read(min(PART_BYTES, end - start))
                self.objects.put(part_key(key, start), data)
                kept[start] = len(data)
                start += len(data)
        self.objects.delete([part_key(key, start) for start in state.parts if start not in kept])
        state.parts = kept

    def _send_whole(self, key: str, path: str) -> None:
        state = self._growing.setdefault(key, _Growing({}))
        if not state.is_whole:
            self.objects.put_file(key, path)
            state.is_whole = True
        if state.parts:
            self.objects.delete([part_key(key, start) for start in state.parts])
            state.parts = {}


def part_key(key: str, start: int) -> str:
    return f"{key}.parts/{start:015d}"
