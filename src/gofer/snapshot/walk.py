"""Walks the code folder and finds which files belong to it and which may have changed. Reads no contents.

A folder whose names and rules have not changed keeps last time's verdicts. So the usual walk is little more
than one `lstat` for each file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable

from gofer.errors import SnapshotError
from gofer.snapshot.ignorefiles import read_rules
from gofer.snapshot.patterns import escape
from gofer.snapshot.rules import GIT_FILE, ONLY_TRACKED, OWN_FILE, SKIP, Rules
from gofer.snapshot.statcache import FIELDS, Record, join_names, pack_signatures, split_names

# A folder with one of these is a Python environment: large, and useless on another machine.
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
_FETCHED = "assets"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REMOVED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # removed or replaced since its parent was read
_ODD = {stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a pipe", stat.S_IFBLK: "a device", stat.S_IFCHR: "a device"}

_SIZE = 3  # of the fields of a signature


class WalkedFolder:
    """One folder as the walk found it. `values` are the signatures of `files`, one after the other.

    `incoming` and `rules` are the fingerprints of the rules above it and in it. `skipped` maps each ignored
    name to whether it is a folder, and `inside` are the rules that ignore it. `only` are the folders that are
    entered for a part of their files. `record` is last time's. `unchanged` says that the record is still
    right in everything; then `files` and `values` are empty, since the record has them. `stamp` is the
    folder's own modification time and mode.
    """

    __slots__ = (
        "files",
        "folders",
        "incoming",
        "inside",
        "only",
        "path",
        "record",
        "rules",
        "skipped",
        "stamp",
        "unchanged",
        "values",
    )

    def __init__(self, path: str, incoming: bytes, rules: bytes, record: Record | None) -> None:
        self.path = path
        self.incoming = incoming
        self.rules = rules
        self.record = record
        self.files: list[str] = []
        self.values: list[int] = []
        self.folders: list[str] = []
        self.skipped: dict[str, bool] = {}
        self.only: list[str] = []
        self.unchanged = False
        self.stamp = (0, 0)
        self.inside: Rules | None = None


def walk(
    root: str, rules: Rules, records: dict[str, Record], watch: Callable[[WalkedFolder], None] | None = None
) -> tuple[list[WalkedFolder], bytes]:
    """Visit every folder that is not ignored; SnapshotError for a folder that cannot be read. Blocking.

    The folders are sorted by path, and come with the fingerprint of all git rules in them. `watch` is called
    with each folder as it is found; an exception of `watch` ends the walk.
    """
    found: list[WalkedFolder] = []
    texts: list[tuple[str, bytes]] = []
    stack = [("", rules)]
    while stack:
        path, incoming = stack.pop()
        try:
            visited = _visit(root, path, incoming, records.get(path))
        except OSError as error:
            if path and error.errno in _REMOVED:
                continue
            raise unreadable(root, path, error, is_folder=True) from error
        if not visited:
            continue
        folder, inside = visited
        found.append(folder)
        if folder.skipped:
            folder.inside = inside
        if watch:
            watch(folder)
        if inside.git is not incoming.git:
            texts.append((path, inside.git[0].patterns.text))
        prefix = path + "/" if path else ""
        for name in folder.folders:
            only = name in folder.only
            stack.append((prefix + name, inside.for_child(os.fsencode(path), os.fsencode(name), only=only)))
    # The order of the manifest, whatever the file system's order is.
    found.sort(key=lambda folder: os.fsencode(folder.path))
    digest = hashlib.sha256(b"".join(layer.patterns.text for layer in rules.git))
    for path, text in sorted(texts):
        digest.update(os.fsencode(path) + b"\0" + hashlib.sha256(text).digest())
    return found, digest.digest()


def unreadable(root: str, path: str, error: OSError, *, is_folder: bool) -> SnapshotError:
    """The error for a part of the snapshot that cannot be read."""
    kind = "folder" if is_folder else "file"
    line = os.fsdecode(escape(os.fsencode(path))) + ("/" if is_folder else "")
    hint = f"make it readable, or leave it out: add the line `{line}` to .goferignore" if path else None
    return SnapshotError(f"cannot read the {kind} `{os.path.join(root, path)}`: {error.strerror}", hint=hint)


def odd_kind(mode: int) -> str | None:
    """The kind of a special file; None for files and links."""
    return _ODD.get(stat.S_IFMT(mode))


def _visit(root: str, path: str, incoming: Rules, record: Record | None) -> tuple[WalkedFolder, Rules] | None:
    """The folder and the rules in it; None when the whole folder is left out, and so has no record."""
    # With names relative to an open folder, the kernel need not resolve the whole path for each file.
    where = os.open(f"{root}/{path}", _OPEN)
    try:
        status = os.fstat(where)
        visited = None
        if record and record.incoming == incoming.fingerprint:
            visited = _revisit(where, path, incoming, record)
        is_known = visited is not None
        folder, inside = visited or _visit_changed(where, path, incoming, record)
    finally:
        os.close(where)
    folder.stamp = (status.st_mtime_ns, status.st_mode)
    return None if not is_known and _is_left_out(folder, incoming) else (folder, inside)


def _is_left_out(folder: WalkedFolder, incoming: Rules) -> bool:
    """Whether the folder is a Python environment, or contains only logs that gofer fetched."""
    if os.path.basename(folder.path) == _FETCHED:
        return bool(folder.skipped) and not folder.files and not folder.folders
    marked = any(mark in folder.files or mark in folder.folders for mark in _ENVIRONMENT_MARKS)
    return marked and folder.path != "" and not incoming.names(os.fsencode(folder.path))


def _revisit(where: int, path: str, incoming: Rules, record: Record) -> tuple[WalkedFolder, Rules] | None:
    """The folder with last time's verdicts; None when its names or rules have changed."""
    skipped = dict.fromkeys(split_names(record.skipped), False)
    skipped.update(dict.fromkeys(split_names(record.skipped_folders), True))
    files: list[str] = []
    folders: list[str] = []
    try:
        values = _scan_known(where, skipped, files, folders)
    except FileNotFoundError:  # removed since the folder was read
        return None
    names = join_names(files)
    if values is None or names != record.files or join_names(folders) != record.folders:
        return None
    inside = _enter(where, path, incoming, f"{names}/{record.skipped}")
    if inside.fingerprint != record.rules:
        return None
    folder = WalkedFolder(path, incoming.fingerprint, inside.fingerprint, record)
    folder.folders, folder.skipped, folder.only = folders, skipped, split_names(record.only)
    folder.unchanged = pack_signatures(values) == record.signatures
    if not folder.unchanged:  # an unchanged folder needs no copy of them, which would be most of the memory
        folder.files, folder.values = files, values
    return folder, inside


def _scan_known(
    where: int, skipped: dict[str, bool], files: list[str], folders: list[str]
) -> list[int] | None:
    """Fill `files` and `folders`; return the signatures, or None when the ignored entries have changed.

    This loop is most of the cost of an unchanged snapshot.
    """
    values: list[int] = []
    left = len(skipped)
    with os.scandir(where) as entries:
        for entry in entries:
            name = entry.name
            if name in skipped:
                left -= 1
                if entry.is_dir(follow_symlinks=False) is not skipped[name]:
                    return None
            elif entry.is_dir(follow_symlinks=False):
                folders.append(name)
            else:
                s = entry.stat(follow_symlinks=False)
                files.append(name)
                values += (s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_size, s.st_mode)
    return None if left else values


def _visit_changed(
    where: int, path: str, incoming: Rules, record: Record | None
) -> tuple[WalkedFolder, Rules]:
    """The folder, with every entry judged by the rules."""
    with os.scandir(where) as scanned:
        entries = list(scanned)
    inside = _enter(where, path, incoming, join_names([entry.name for entry in entries]))
    folder = WalkedFolder(path, incoming.fingerprint, inside.fingerprint, record)
    judge = inside.judge(os.fsencode(path))
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        verdict = judge(os.fsencode(entry.name), is_folder)
        if verdict == SKIP:
            folder.skipped[entry.name] = is_folder
        elif is_folder:
            folder.folders.append(entry.name)
            if verdict == ONLY_TRACKED:
                folder.only.append(entry.name)
        elif signature := _signature(entry):
            folder.files.append(entry.name)
            folder.values.extend(signature)
    return folder, inside


def _signature(entry: os.DirEntry[str]) -> tuple[int, ...] | None:
    try:
        s = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # removed since the folder was read
        return None
    return s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_size, s.st_mode


def _enter(where: int, path: str, incoming: Rules, names: str) -> Rules:
    """The rules in the folder. As in git, a rule file that is itself ignored still counts."""
    if GIT_FILE not in names and OWN_FILE not in names:
        return incoming
    git = read_rules(GIT_FILE, where, shown=os.path.join(path, GIT_FILE)) if GIT_FILE in names else None
    own = read_rules(OWN_FILE, where, shown=os.path.join(path, OWN_FILE)) if OWN_FILE in names else None
    return incoming.enter(os.fsencode(path), git, own)


class OutsideLimit:
    """Calls `exceeded(files, bytes)` once, when more than these are outside of the folder `inside`.

    `inside` is a path from the top of the code folder. An exception of `exceeded` ends the walk.
    """

    def __init__(self, inside: str, *, files: int, size: int, exceeded: Callable[[int, int], None]) -> None:
        self._inside = inside
        self._most_files = files
        self._most_size = size
        self._exceeded = exceeded
        self._is_answered = False
        self.begin()

    def begin(self) -> None:
        """Reset the counts for another walk."""
        self._files = 0
        self._size = 0

    def add(self, folder: WalkedFolder) -> None:
        if self._is_answered or f"{folder.path}/".startswith(f"{self._inside}/"):
            return
        files, size = extent_of(folder)
        self._files += files
        self._size += size
        if self._files > self._most_files or self._size > self._most_size:
            self._is_answered = True
            self._exceeded(self._files, self._size)


def extent_of(folder: WalkedFolder) -> tuple[int, int]:
    """The number of files and bytes directly in a walked folder, without its subfolders."""
    if folder.unchanged and folder.record:
        return folder.record.entries, folder.record.size
    return len(folder.files), sum(folder.values[_SIZE::FIELDS])
