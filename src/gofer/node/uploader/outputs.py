"""Sends what a command leaves in its outputs to an object store: whole versions only, and only what changed.
What is kept of its working folder (`files/`) goes the same way.

A file that is written to while it is read is given up before the store shows any of it, and tried again at
the next look. One that another takes the place of (written beside it, then renamed) is sent as it was. What
the command removes is removed from the store too, a while later: of checkpoints that take turns, the store
has those that the folder has, and so has the next attempt.
"""

from __future__ import annotations

import fnmatch
import os
import stat
import time
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Protocol, Sequence

from gofer.core import run_layout
from gofer.core.parallel import each
from gofer.core.sleep import pause
from gofer.node.folders.remote import describe
from gofer.node.uploader import restore
from gofer.node.uploader.restore import Stamp, stamp

_PIECE_BYTES = 1024 * 1024
_SMALL_BYTES = 1024 * 1024
_AT_ONCE = 16
# A look through files that takes longer than this is made in a tenth of the time.
_LONG_S = 0.2
_REST = 10
# A file that is sent while the run runs must have been left alone for this long.
SETTLED_S = 2.0
# When the command is over, what still changes is waited for between tries; after the last it is given up.
_WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
# What is gone for so long is gone for good; what was to take its place is in the store by then.
GONE_S = 60.0
# Systems stamp files by a clock that ticks: what is written within one tick may have the stamp it had.
_TICK_NS = 20_000_000


class Sink(Protocol):
    """What outputs need of gofer.objects."""

    def put_stream(
        self, key: str, pieces: Iterable[bytes], *, metadata: Optional[Mapping[str, str]] = None
    ) -> int: ...

    def delete(self, keys: Iterable[str]) -> int: ...


class _Changed(Exception):
    """The file is not what it was when its reading began."""


class _File(NamedTuple):
    key: str
    path: str
    stamp: Stamp


class Outputs:
    """The outputs of the runs in one spool. One thread for each run at a time.

    Whatever the store raises passes through, and the call can be made again.
    """

    def __init__(
        self,
        spool: str,
        objects: Sink,
        sync: Sequence[str],
        *,
        settled_s: float = SETTLED_S,
        gone_s: float = GONE_S,
    ) -> None:
        self._settled_s = settled_s
        self._gone_s = gone_s
        self._spool = spool
        self._objects = objects
        self._sync = tuple(sync)
        self._stamps: Dict[str, Stamp] = {}
        self._knows_past = False
        self._rest_until: Dict[str, float] = {}
        # Of each run, what this node has in the store, and since when it is gone here (None while it is not).
        self._own: Dict[str, Dict[str, Optional[float]]] = {}

    def look(self, run_id: str) -> None:
        """Send what fits a pattern, is new, and was left alone for a while.

        Does nothing now and then where files are so many that looking through them takes long.
        """
        began = time.monotonic()
        if not self._sync or began < self._rest_until.get(run_id, 0.0):
            return
        found = self._new(run_id)
        took_s = time.monotonic() - began
        self._rest_until[run_id] = began + (_REST * took_s if took_s > _LONG_S else 0.0)
        self._send(run_id, [one for one in found if self._is_due(one, run_id)])
        self._remove_gone(run_id, self._gone_s)

    def is_behind(self, run_id: str) -> bool:
        """Whether the store lacks anything of what is there now."""
        return bool(self._new(run_id))

    def finish(self, run_id: str) -> List[str]:
        """Send all of it. The names of files that were written to in each of several tries."""
        for wait_s in (*_WAITS_S, 0.0):
            changing = self._send(run_id, self._new(run_id))
            if not changing:
                break
            pause(wait_s)
        self._remove_gone(run_id, 0.0)
        return [os.path.relpath(key, _top_of(key, run_id)) for key in changing]

    def _new(self, run_id: str) -> List[_File]:
        """What the store has not, or has another version of; all that is there is found before it is asked
        which of it came from the store."""
        found = list(self._files(run_id))
        brought = None if self._knows_past else restore.read(self._spool)
        if brought is not None:
            self._knows_past = True
            self._stamps.update(brought.stamps)
            if brought.is_ours:
                self._own[run_id] = dict.fromkeys(brought.stamps)
        return [one for one in found if self._stamps.get(one.key) != one.stamp]

    def _files(self, run_id: str) -> Iterator[_File]:
        yield from self._below(run_layout.outputs_key(run_id), os.stat)
        # The list of kept files says where a link leads.
        yield from self._below(run_layout.files_key(run_id), os.lstat)

    def _below(self, top: str, look: Callable[[str], os.stat_result]) -> Iterator[_File]:
        for where, folders, names in os.walk(os.path.join(self._spool, top)):
            folders.sort()
            above = os.path.relpath(where, self._spool)
            for name in sorted(names):
                path = os.path.join(where, name)
                try:
                    status = look(path)
                except FileNotFoundError:
                    continue  # the command removes files as it likes
                if stat.S_ISREG(status.st_mode):
                    yield _File(f"{above}/{name}", path, stamp(status))

    def _is_due(self, file: _File, run_id: str) -> bool:
        """A file of `files/` is a copy already, which nobody writes to."""
        if _top_of(file.key, run_id) == run_layout.files_key(run_id):
            return True
        name = os.path.relpath(file.key, run_layout.outputs_key(run_id))
        is_settled = time.time_ns() - file.stamp[1] >= self._settled_s * 1e9
        return is_settled and any(matches(name, pattern) for pattern in self._sync)

    def _send(self, run_id: str, files: List[_File]) -> List[str]:
        """The keys of those that were written to meanwhile. Small ones go together: each is a round trip."""
        own = self._own.setdefault(run_id, {})
        changing: List[str] = []
        failures: List[Exception] = []

        def send(file: _File) -> None:
            try:
                if not failures and self._send_one(file):
                    own[file.key] = None
            except _Changed:
                changing.append(file.key)
            except Exception as error:  # raised below, when no other thread sends any more
                failures.append(error)

        small = [one for one in files if one.stamp[0] < _SMALL_BYTES]
        if small:
            each(small, send, at_once=min(len(small), _AT_ONCE))
        for one in files:
            if one.stamp[0] >= _SMALL_BYTES:
                send(one)
        if failures:
            raise failures[0]
        return changing

    def _send_one(self, file: _File) -> bool:
        """Whether it is there to be sent."""
        try:
            fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # the command has removed it
        try:
            status = os.fstat(fd)
            self._objects.put_stream(file.key, _whole(fd, stamp(status)), metadata=describe(status))
        finally:
            os.close(fd)
        self._stamps[file.key] = stamp(status)
        return True

    def _remove_gone(self, run_id: str, gone_s: float) -> None:
        """From the store, what is no more in the folder, if the folder itself is."""
        own, now = self._own.get(run_id, {}), time.monotonic()
        tops = [run_layout.outputs_key(run_id), run_layout.files_key(run_id)]
        there = {top for top in tops if os.path.isdir(os.path.join(self._spool, top))}
        for key, since in list(own.items()):
            if _top_of(key, run_id) not in there:
                continue
            own[key] = (since or now) if _is_gone(os.path.join(self._spool, key)) else None
        doomed = [key for key, since in own.items() if since is not None and now - since >= gone_s]
        if doomed:
            self._objects.delete(doomed)
        for key in doomed:
            del own[key]
            self._stamps.pop(key, None)


def _top_of(key: str, run_id: str) -> str:
    kept = run_layout.files_key(run_id)
    return kept if key.startswith(kept + "/") else run_layout.outputs_key(run_id)


def _is_gone(path: str) -> bool:
    """That it cannot be looked at does not say that it is."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def matches(name: str, pattern: str) -> bool:
    """Whether a file of the outputs fits a `sync:` pattern; one without a slash fits in any folder."""
    return fnmatch.fnmatchcase(name if "/" in pattern else os.path.basename(name), pattern)


def _whole(fd: int, known: Stamp) -> Iterator[bytes]:
    """The bytes of one version of a file; _Changed, before whoever takes them can be done, if it is another.

    A write after the first read has another time than `known`, since that time's tick is over then.
    """
    if abs(time.time_ns() - known[1]) < _TICK_NS:
        pause(2 * _TICK_NS / 1e9)
    at = 0
    while True:
        data = os.pread(fd, _PIECE_BYTES, at)
        if stamp(os.fstat(fd)) != known:
            raise _Changed
        if not data:
            return
        at += len(data)
        yield data
