"""Upload the outputs of a command to an object store: only complete versions of files, and only changed
files. The files that are kept of its working copy (`files/`) are uploaded in the same way.

If a file changes while it is read, its upload is dropped before the store shows any of it, and repeated
later. A file that is replaced by renaming another is sent as it was. A file that the command removes is
removed from the store too, some time later. So when a program rotates checkpoints, the store has the same
files as the folder, and so has the next attempt.
"""

from __future__ import annotations

import fnmatch
import os
import stat
import time
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Protocol, Sequence

from gofer.core import run_layout
from gofer.core.parallel import each
from gofer.core.secrets.secret_files import looks_like_secret
from gofer.core.sleep import pause
from gofer.node.folders.remote import describe
from gofer.node.uploader import restore
from gofer.node.uploader.restore import Stamp, stamp

_PIECE_BYTES = 1024 * 1024
_SMALL_BYTES = 1024 * 1024
_AT_ONCE = 16
# When a scan takes longer than this, the pauses are long enough that scans take a tenth of the time.
_LONG_S = 0.2
_REST = 10
# During a run, a file is sent only if it was not changed for this long.
SETTLED_S = 2.0
# After the command, the waits between tries for files that still change. After the last try they are
# reported.
_WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
# A file that is absent for this long was removed, and is not just being replaced.
GONE_S = 60.0
# File times come from a clock that ticks, so two writes within one tick may have the same time.
_TICK_NS = 20_000_000


class Sink(Protocol):
    """The methods of an object store that Outputs needs."""

    def put_stream(
        self, key: str, pieces: Iterable[bytes], *, metadata: Optional[Mapping[str, str]] = None
    ) -> int: ...

    def delete(self, keys: Iterable[str]) -> int: ...


class _Changed(Exception):
    """The file has changed since reading began."""


class _File(NamedTuple):
    key: str
    path: str
    stamp: Stamp


class Outputs:
    """Uploads the outputs of the runs in one spool. At most one thread per run at a time.

    Errors of the store pass through, and the call can be repeated.
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
        # For each run, the keys that this node has sent, with the time since which the file is absent (None
        # if present).
        self._own: Dict[str, Dict[str, Optional[float]]] = {}

    def upload_changes(self, run_id: str) -> None:
        """Send files that match a pattern, are new or changed, and have not been written to for a while.
        Blocks.

        With very many files, some calls do nothing, since a scan takes long.
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
        """Whether any file is not in the store in its present version."""
        return bool(self._new(run_id))

    def finish(self, run_id: str) -> List[str]:
        """Send everything. Blocks. The names of files that were changing during every try."""
        for wait_s in (*_WAITS_S, 0.0):
            changing = self._send(run_id, self._new(run_id))
            if not changing:
                break
            pause(wait_s)
        self._remove_gone(run_id, 0.0)
        return [os.path.relpath(key, _top_of(key, run_id)) for key in changing]

    def _new(self, run_id: str) -> List[_File]:
        """Files that the store does not have in this version. The files are listed before the record of
        restored files is read: a file that appears in between is then sent once more, and never missed.
        """
        found = list(self._files(run_id))
        brought = None if self._knows_past else restore.read(self._spool)
        if brought is not None:
            self._knows_past = True
            self._stamps.update(brought.stamps)
            if brought.is_ours:
                self._own[run_id] = dict.fromkeys(brought.stamps)
        return [one for one in found if self._stamps.get(one.key) != one.stamp]

    def _files(self, run_id: str) -> Iterator[_File]:
        for file in self._below(run_layout.outputs_key(run_id), os.stat):
            if not looks_like_secret(file.key):
                yield file
        # Links below `files/` are not sent; the list of kept files has their targets.
        yield from self._below(run_layout.files_key(run_id), os.lstat)

    def _below(self, top: str, read_status: Callable[[str], os.stat_result]) -> Iterator[_File]:
        for where, folders, names in os.walk(os.path.join(self._spool, top)):
            folders.sort()
            above = os.path.relpath(where, self._spool)
            for name in sorted(names):
                path = os.path.join(where, name)
                try:
                    status = read_status(path)
                except FileNotFoundError:
                    continue  # the command has removed the file in the meantime
                if stat.S_ISREG(status.st_mode):
                    yield _File(f"{above}/{name}", path, stamp(status))

    def _is_due(self, file: _File, run_id: str) -> bool:
        """Whether a file may be sent during the run. A file below `files/` is a copy that nobody writes to,
        so it may.
        """
        if _top_of(file.key, run_id) == run_layout.files_key(run_id):
            return True
        name = os.path.relpath(file.key, run_layout.outputs_key(run_id))
        is_settled = time.time_ns() - file.stamp[1] >= self._settled_s * 1e9
        return is_settled and any(matches(name, pattern) for pattern in self._sync)

    def _send(self, run_id: str, files: List[_File]) -> List[str]:
        """Send files; the keys of those that changed during the upload. Small files are sent in parallel,
        since each costs a round trip.
        """
        own = self._own.setdefault(run_id, {})
        changing: List[str] = []
        failures: List[Exception] = []

        def send(file: _File) -> None:
            try:
                if not failures and self._send_one(file):
                    own[file.key] = None
            except _Changed:
                changing.append(file.key)
            except Exception as error:  # raised below, when all threads are done
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
        """Send one file; False when it does not exist."""
        try:
            fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # the command has removed it
        try:
            status = os.fstat(fd)
            self._objects.put_stream(file.key, _read_version(fd, stamp(status)), metadata=describe(status))
        finally:
            os.close(fd)
        self._stamps[file.key] = stamp(status)
        return True

    def _remove_gone(self, run_id: str, gone_s: float) -> None:
        """Remove objects from the store whose files are gone, but only if the whole folder still exists."""
        own, now = self._own.get(run_id, {}), time.monotonic()
        tops = [run_layout.outputs_key(run_id), run_layout.files_key(run_id)]
        there = {top for top in tops if os.path.isdir(os.path.join(self._spool, top))}
        for key, since in list(own.items()):
            if _top_of(key, run_id) not in there:
                continue
            own[key] = (since or now) if _is_gone(os.path.join(self._spool, key)) else None
        removed = [key for key, since in own.items() if since is not None and now - since >= gone_s]
        if removed:
            self._objects.delete(removed)
        for key in removed:
            del own[key]
            self._stamps.pop(key, None)


def _top_of(key: str, run_id: str) -> str:
    kept = run_layout.files_key(run_id)
    return kept if key.startswith(kept + "/") else run_layout.outputs_key(run_id)


def _is_gone(path: str) -> bool:
    """Whether the file is absent. A file that cannot be read for another reason is not."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def matches(name: str, pattern: str) -> bool:
    """Whether a file of the outputs matches a `sync:` pattern. A pattern without a slash matches in any
    folder.
    """
    return fnmatch.fnmatchcase(name if "/" in pattern else os.path.basename(name), pattern)


def _read_version(fd: int, known: Stamp) -> Iterator[bytes]:
    """The bytes of one version of a file. _Changed before the last piece if the file changes during reading.

    This waits until the clock tick of `known` is over, so that a later write gets another time.
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
