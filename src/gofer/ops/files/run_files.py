"""Copy the files of a run to a folder with their modes, times, links, empty folders and holes.

A store that is a folder has all of these. For an object store they are in the lists that the nodes wrote
(`files.jsonl`). Links are never followed, neither in the store nor in the destination.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.core import run_layout as names
from gofer.core.code import trees
from gofer.core.parallel import parallel_map
from gofer.errors import KeyNotFound, StoreError, UsageError
from gofer.node.folders import remote
from gofer.node.kept import records
from gofer.node.kept.records import KeptFile
from gofer.ops.logs.log_bytes import StoredLog, read_forward
from gofer.ops.runs.run_folder import READERS
from gofer.storage.base import OnDisk

if TYPE_CHECKING:
    from gofer.ops.runs.run_folder import RunFolder
    from gofer.storage.base import ObjectInfo, Store

# The set-user-id and set-group-id bits are never copied from a store.
_MODE = 0o1777
_SECOND_NS = 1_000_000_000
# An object that is younger may be replaced within the same second of its time. Its copy gets a time that no
# object has, a millisecond later, so that the next copy reads it again.
_SETTLED_S = 2.0
_UNSETTLED_NS = 1_000_000
_KINDS = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


class FetchedFiles(NamedTuple):
    """How many files and links the folder holds, which failed, and which cannot be copied.

    Each of `failed` and `left_out` is a path and the reason.
    """

    files: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()

    def moved(self, below: str) -> FetchedFiles:
        """The same result with all paths below a folder."""
        return FetchedFiles(
            self.files,
            tuple((os.path.normpath(os.path.join(below, path)), why) for path, why in self.failed),
            tuple((os.path.normpath(os.path.join(below, path)), why) for path, why in self.left_out),
        )

    def plus(self, other: FetchedFiles) -> FetchedFiles:
        """The sum of both."""
        return FetchedFiles(
            self.files + other.files, self.failed + other.failed, self.left_out + other.left_out
        )


def bring(folder: RunFolder, place: str, destination: Path) -> FetchedFiles:
    """Copy `outputs` or `files` of a run to a folder, which is created if there is something to copy. Blocks.

    Files that already have the same size and time are not read again; other files there stay. Each file is
    written completely or not at all. Files that cannot be read or written are named, and the rest is copied.
    UsageError when `destination` is a link or a file.
    """
    store, key = folder.store, f"{names.run_key(folder.run_id)}/{place}"
    if destination.is_symlink() or (destination.exists() and not destination.is_dir()):
        raise UsageError(
            f"`{destination}` is not a folder",
            hint=f"remove it, or name another folder than `{destination.parent}`",
        )
    if isinstance(store, OnDisk):
        return bring_folder(str(store.path(key)), destination)
    listed = {one.path: one for one in lists_of(folder) if one.place == place}
    return _Objects(folder.store, key, destination, objects=folder.list_place(place)).bring(listed)


def bring_listed(store: Store, listed: Iterable[KeptFile], destination: Path) -> FetchedFiles:
    """Like `bring`, but only the files in a list, from a store that is the folder itself."""
    found = {one.path: one for one in listed}
    return _Objects(store, "", destination, found.__contains__).bring(found)


def bring_folder(source: str, destination: Path, listed: Iterable[KeptFile] | None = None) -> FetchedFiles:
    """Like `bring`, from a folder of this machine: the files in a list, or all."""
    if not os.path.isdir(source) or os.path.islink(source):
        return FetchedFiles()
    if listed is None:
        return _Tree(source, str(destination), lambda path: True).bring()
    wanted = {one.path for one in listed}
    for path in list(wanted):
        while path and (path := path.rpartition("/")[0]) not in wanted:
            wanted.add(path)
    return _Tree(source, str(destination), wanted.__contains__).bring()


def list_of(folder: RunFolder, attempt: int, node: int) -> list[KeptFile]:
    """The files in the list of one node; empty when there is no list."""
    data = folder.read_nodes(attempt, names.FILE_LIST).get(node)
    return [] if data is None else list(records.decode_list(data))


def lists_of(folder: RunFolder) -> list[KeptFile]:
    """The files in the lists of all nodes: for each node the newest list."""
    lists = folder.newest_of_nodes(names.FILE_LIST).values()
    return [one for data in lists for one in records.decode_list(data)]


class _Writer:
    """Writes files below one folder, never through a link, and records what failed."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.files = 0
        self.failed: list[tuple[str, str]] = []
        self.left_out: list[tuple[str, str]] = []
        self._made: set[str] = set()

    def result(self) -> FetchedFiles:
        return FetchedFiles(self.files, tuple(self.failed), tuple(self.left_out))

    def fail(self, path: str, error: OSError | StoreError) -> None:
        words = error.message if isinstance(error, StoreError) else (error.strerror or str(error)).lower()
        self.failed.append((path, words))

    def make_folder(self, path: str) -> str:
        """Make the folder and those above it; its full path. Anything else at this path is removed."""
        whole = os.path.join(self.root, path) if path else self.root
        if path in self._made:
            return whole
        if path:
            self.make_folder(os.path.dirname(path))
        else:
            os.makedirs(os.path.dirname(whole), exist_ok=True)
        try:
            os.mkdir(whole)
        except FileExistsError:
            if path and not stat.S_ISDIR(os.lstat(whole).st_mode):
                os.unlink(whole)
                os.mkdir(whole)
        self._made.add(path)
        return whole

    def is_same(self, path: str, size: int, mtime_ns: int) -> bool:
        with suppress(OSError):
            held = os.lstat(os.path.join(self.root, path))
            return stat.S_ISREG(held.st_mode) and (held.st_size, held.st_mtime_ns) == (size, mtime_ns)
        return False

    def place(self, path: str, write: Callable[[str], None]) -> None:
        """Call `write` with a temporary name, then rename the result to this path."""
        above, _, name = path.rpartition("/")
        folder = self.make_folder(above)
        part = os.path.join(folder, f".{name[:60]}.{secrets.token_hex(4)}.part")
        try:
            write(part)
            os.replace(part, os.path.join(folder, name))
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise

    def link(self, path: str, target: str, mtime_ns: int) -> None:
        def write(part: str) -> None:
            os.symlink(target, part)
            os.utime(part, ns=(mtime_ns, mtime_ns), follow_symlinks=False)

        self.place(path, write)


class _Tree:
    """Copies the files below one folder of this machine."""

    def __init__(self, source: str, destination: str, wanted: Callable[[str], bool]) -> None:
        self._source = source
        self._wanted = wanted
        self._writer = _Writer(destination)

    def bring(self) -> FetchedFiles:
        self._folder("")
        return self._writer.result()

    def _folder(self, path: str) -> None:
        source = os.path.join(self._source, path) if path else self._source
        try:
            status = os.lstat(source)
            with os.scandir(source) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self._writer.fail(path or ".", error)
            return
        for entry in entries:
            self._entry(f"{path}/{entry.name}" if path else entry.name, entry)
        if path and (not entries or os.path.isdir(os.path.join(self._writer.root, path))):
            self._finish_folder(path, status)

    def _entry(self, path: str, entry: os.DirEntry[str]) -> None:
        if not self._wanted(path):
            return
        if entry.is_dir(follow_symlinks=False):
            self._folder(path)
            return
        try:
            status = entry.stat(follow_symlinks=False)
            kind = _KINDS.get(stat.S_IFMT(status.st_mode))
            if kind is not None:
                self._writer.left_out.append((path, f"is {kind}"))
                return
            if not self._writer.is_same(path, status.st_size, status.st_mtime_ns):
                self._writer.place(path, lambda part: _copy(entry.path, part))
            self._writer.files += 1
        except OSError as error:
            self._writer.fail(path, error)

    def _finish_folder(self, path: str, status: os.stat_result) -> None:
        """Set the mode and time of a folder, after everything in it was written."""
        try:
            whole = self._writer.make_folder(path)
            os.chmod(whole, stat.S_IMODE(status.st_mode) & _MODE)
            os.utime(whole, ns=(status.st_atime_ns, status.st_mtime_ns))
        except OSError as error:
            self._writer.fail(path, error)


def _copy(source: str, part: str) -> None:
    trees.copy_file(source, part)
    mode = os.lstat(part).st_mode
    if stat.S_ISREG(mode) and stat.S_IMODE(mode) & ~_MODE:
        os.chmod(part, stat.S_IMODE(mode) & _MODE)


class _Objects:
    """Copies the objects below one key of a store, with the facts in the nodes' lists."""

    def __init__(
        self,
        store: Store,
        prefix: str,
        destination: Path,
        wanted: Callable[[str], bool] | None = None,
        objects: Iterable[ObjectInfo] | None = None,
    ) -> None:
        self._store = store
        self._wanted = wanted or (lambda path: True)
        self._prefix = prefix
        self._listed_objects = store.list(prefix) if objects is None else objects
        self._writer = _Writer(str(destination))

    def bring(self, listed: dict[str, KeptFile]) -> FetchedFiles:
        objects = [one for one in self._objects() if _kind(listed.get(one[0])) != records.LINK]
        done = parallel_map(
            lambda one: self._object(one[0], one[1], listed),
            self._ready(objects),
            at_once=READERS,
        )
        self._writer.files += sum(done)
        there = {path for path, _ in objects}
        for one in listed.values():  # links last, so that nothing is written through a link
            if one.path not in there and one.kind in (records.LINK, records.FOLDER):
                self._listed(one)
        return self._writer.result()

    def _objects(self) -> Iterator[tuple[str, ObjectInfo]]:
        for info in self._listed_objects:
            path = info.key[len(self._prefix) :].lstrip("/")
            if not path or not self._wanted(path):
                continue
            if not {"", ".", ".."}.isdisjoint(path.split("/")) or "\0" in path:
                raise StoreError(
                    f"the store {self._store.url} lists a key that leaves its folder: {info.key!r}"
                )
            yield path, info

    def _ready(self, objects: Iterable[tuple[str, ObjectInfo]]) -> Iterator[tuple[str, ObjectInfo]]:
        """The objects whose folder could be made. One thread makes all folders."""
        for path, info in objects:
            try:
                self._writer.make_folder(os.path.dirname(path))
            except OSError as error:
                self._writer.fail(path, error)
                continue
            yield path, info

    def _object(self, path: str, info: ObjectInfo, listed: dict[str, KeptFile]) -> bool:
        """Copy one object; whether the file exists now. Any thread."""
        record = listed.get(path)
        known = record if record is not None and record.size == info.size else None
        at = known.mtime_ns if known else remote.mtime_ns(info) or _time_of(info)
        mode = known.mode & _MODE if known else (0o755 if remote.is_executable(info) else None)

        def write(part: str) -> None:
            with open(part, "xb") as file:
                pieces = read_forward(StoredLog(self._store, info.key))
                trees.write_pieces(file, pieces, holes=known is not None and known.allocated is not None)
            if mode is not None:
                os.chmod(part, mode)
            os.utime(part, ns=(at, at))

        try:
            if not self._writer.is_same(path, info.size, at):
                self._writer.place(path, write)
        except KeyNotFound:
            return False  # removed since it was listed
        except (OSError, StoreError) as error:
            self._writer.fail(path, error)
            return False
        return True

    def _listed(self, one: KeptFile) -> None:
        try:
            if one.kind == records.LINK:
                self._writer.link(one.path, one.target or "", one.mtime_ns)
                self._writer.files += 1
                return
            whole = self._writer.make_folder(one.path)
            os.chmod(whole, one.mode & _MODE)
            os.utime(whole, ns=(one.mtime_ns, one.mtime_ns))
        except OSError as error:
            self._writer.fail(one.path, error)


def _time_of(info: ObjectInfo) -> int:
    """The time of the object as a file time. For a very recent object, a slightly later time: the object may
    change again within the same second, and then the copy must not look up to date.
    """
    unsettled = time.time() - info.modified < _SETTLED_S
    return int(info.modified * _SECOND_NS) + (_UNSETTLED_NS if unsettled else 0)


def _kind(one: KeptFile | None) -> str | None:
    return None if one is None else one.kind
