"""Copy logs and other new files of a run into a folder: from its store, or from the service that runs it.

Files that only grow (logs, events) get their new bytes appended; other files are replaced. A killed copy
leaves the beginning of a growing file, or the old or new version of another file.

In a folder such as /tmp, another user can place a link where gofer is about to write, and so make gofer
overwrite a file of the person. `make_parent` and `open_to_extend` refuse folders behind links of other users,
and never open a file through a link.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from gofer.core import run_layout as names
from gofer.core.files import encode, read_json, write_whole
from gofer.core.parallel import parallel_map
from gofer.errors import StoreError
from gofer.ops.logs.log_bytes import CHUNK, ServiceLog, StoredLog, read_forward

if TYPE_CHECKING:
    from gofer.backends.base import LogService
    from gofer.storage.base import ObjectInfo, Store
    from gofer.tracking.ledger import RunRow


# This many bytes are read again and compared, to notice a local file that is not the beginning of the remote
# file.
_OVERLAP = 256
# Times are converted through floats, and some stores have whole seconds only.
_SAME_TIME_S = 1e-5
# At most this many logs of a service are read at a time.
_MOST_READERS = 16
# This file marks copies of a service's logs as complete: they were made after the run had ended.
_COMPLETE = ".complete"
# With this file, git does not show the copies as new files of the project.
_IGNORE = ".gitignore"
_SETTLED_S = 2.0
_UNSETTLED_S = 1e-3
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class MirrorResult(NamedTuple):
    """The local files in key order, and how many bytes were read this time."""

    paths: list[Path]
    bytes_read: int


def mirror(
    store: Store,
    prefix: str,
    folder: Path,
    wanted: Callable[[str], bool] | None = None,
    *,
    grows: bool = True,
    listed: Iterable[ObjectInfo] | None = None,
) -> MirrorResult:
    """Update `folder` from the objects below `prefix` whose relative key is `wanted`. Blocks.

    `listed` are the objects below `prefix`, if they are known. With `grows`, growing files (see
    gofer.core.run_layout) are assumed to change only at their end. Local files that the store does not have
    stay. Safe while the objects grow and while another process copies into the same folder. Objects that
    vanish in the meantime are skipped.
    """
    paths, bytes_read = [], 0
    for info in store.list(prefix) if listed is None else listed:
        relative = info.key[len(prefix) :].lstrip("/")
        if not relative or (wanted is not None and not wanted(relative)):
            continue
        if not {"", ".", ".."}.isdisjoint(relative.split("/")):
            raise StoreError(f"the store {store.url} lists a key that leaves its folder: {info.key!r}")
        path = folder / relative
        make_parent(path, folder)
        bring = _extend if grows and names.grows(relative) else _replace
        bytes_read += bring(store, info, path)
        paths.append(path)
    return MirrorResult(paths, bytes_read)


def _extend(store: Store, info: ObjectInfo, path: Path) -> int:
    """Append the missing bytes. A lock keeps two processes from appending the same bytes."""
    import fcntl

    log = StoredLog(store, info.key)
    if path.is_file() and not path.is_symlink() and path.stat().st_size == info.size:
        return 0
    with open_to_extend(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        overlap = min(_OVERLAP, size)
        pieces = read_forward(log, size - overlap)
        head = next(pieces, b"")
        file.seek(size - overlap)
        if head[:overlap] != file.read(overlap):
            file.truncate(0)
            file.seek(0)
            return _append(file.write, read_forward(log))
        file.seek(size)
        return overlap + _append(file.write, _chain(head[overlap:], pieces))


def _replace(store: Store, info: ObjectInfo, path: Path) -> int:
    """Replace the file, unless size and time show that it is already this object."""
    if path.exists():
        held = path.stat()
        if held.st_size == info.size and abs(held.st_mtime - info.modified) < _SAME_TIME_S:
            return 0
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(4).hex()}.part")
    try:
        with open(temporary, "xb", buffering=CHUNK) as file:
            size = _append(file.write, read_forward(StoredLog(store, info.key)))
        # A very recent object may change again within the same second. Its copy gets a time that does not
        # match, so that it is fetched again.
        is_settled = time.time() - info.modified > _SETTLED_S
        mark = info.modified if is_settled else info.modified + _UNSETTLED_S
        os.utime(temporary, (mark, mark))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return size


def _append(write: Callable[[bytes], int], pieces: Iterator[bytes]) -> int:
    total = 0
    for piece in pieces:
        write(piece)
        total += len(piece)
    return total


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def copy_service_logs(service: LogService, row: RunRow, destination: Path, *, remember: bool) -> list[Path]:
    """Copy the logs that a service has of a run: see `gofer.ops.logs.log_sources.ServiceLogs.fetch`."""
    held = _remembered(row, destination) if remember else None
    if held is not None:
        return held
    files = [name for name in service.native_logs(row.id) if is_safe(name)]
    for name in files:
        make_parent(destination / name, destination)
    copies = parallel_map(
        lambda name: _extend_copy(ServiceLog(service, row.id, name), destination / name),
        files,
        at_once=_MOST_READERS,
    )
    if remember and row.is_final:
        make_parent(destination / _COMPLETE, destination)
        record = encode({"ended_at": row.ended_at, "logs": files})
        write_whole(str(destination / _COMPLETE), record + b"\n")
    return copies


def hide_from_git(folder: Path) -> None:
    """Make git ignore the folder of copies, if there is one. Never changes an existing file."""
    with suppress(FileExistsError, FileNotFoundError), open(folder / _IGNORE, "x", encoding="ascii") as file:
        file.write("*\n")


def is_mark(path: Path) -> bool:
    """Whether a file among the copies is gofer's own: the mark that says that they are complete, or the file
    that hides them from git.
    """
    return path.name in (_COMPLETE, _IGNORE)


def is_safe(name: str) -> bool:
    """Whether a file of this name stays inside the destination folder."""
    return {"", ".", ".."}.isdisjoint(name.split("/")) and "\0" not in name and len(name) < 1000


def _remembered(row: RunRow, folder: Path) -> list[Path] | None:
    """The copies, if they were made after the run's present end and all still exist; else None."""
    held = read_json(str(folder / _COMPLETE)) if row.is_final else None
    if not isinstance(held, dict) or held.get("ended_at") != row.ended_at:
        return None
    files = held.get("logs")
    if not isinstance(files, list) or not all(isinstance(name, str) and is_safe(name) for name in files):
        return None
    copies = [folder / name for name in files]
    return copies if all(path.is_file() for path in copies) else None


def _extend_copy(log: ServiceLog, path: Path) -> Path:
    """Append the missing bytes to a copy, under a lock. A copy that is longer than the log is replaced.

    A copy of a log that no longer exists is kept.
    """
    import fcntl

    with open_to_extend(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        copied = _append(file.write, read_forward(log, size))
        present = log.service.native_size(log.run_id, log.name) if size and not copied else None
        if present is not None and present < size:
            file.truncate(0)
            file.seek(0)
            _append(file.write, read_forward(log))
    return path


def make_parent(path: Path, folder: Path) -> None:
    """Make the folders from `folder` down to the file; StoreError for a link that belongs to another user,
    and for a folder of another user in one that everybody can write: its owner could replace what is in it.

    The two folders above `folder` are checked as well, since logs go to `assets/<id>/attempts`.
    """
    inner = [one for one in path.parents if one == folder or folder in one.parents]
    for one in reversed([*inner, *list(folder.parents)[:2]]):
        if one.is_symlink() and one.lstat().st_uid not in (os.getuid(), 0):
            raise StoreError(
                f"`{one}` is a link that belongs to another user", hint="remove it, or work in another folder"
            )
        one.mkdir(parents=True, exist_ok=True)
        if one.stat().st_uid not in (os.getuid(), 0) and one.parent.stat().st_mode & stat.S_IWOTH:
            raise StoreError(
                f"`{one}` belongs to another user, in a folder that everybody can write",
                hint="work in another folder",
            )


def open_to_extend(path: Path) -> BinaryIO:
    """Open a file for reading and appending; it is created if absent. A link, a pipe or a file with hard
    links is removed first, so that no other file can be changed.
    """
    try:
        descriptor = os.open(path, _OPEN, 0o666)
    except OSError:
        if not path.is_symlink():
            raise
        path.unlink()
        descriptor = os.open(path, _OPEN | os.O_EXCL, 0o666)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        path.unlink()
        descriptor = os.open(path, _OPEN | os.O_EXCL, 0o666)
    return os.fdopen(descriptor, "r+b")
