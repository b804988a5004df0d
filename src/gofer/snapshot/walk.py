"""Goes through the code folder and finds what belongs to it and what may have changed. Reads no contents.

A folder whose names and rules are what they were keeps last time's verdicts, which makes the usual walk
little more than one `lstat` a file.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import NamedTuple

from gofer.errors import SnapshotError
from gofer.snapshot.ignorefiles import read_rules
from gofer.snapshot.patterns import escape
from gofer.snapshot.rules import GIT_FILE, KEEP, ONLY_TRACKED, OWN_FILE, SKIP, Rules
from gofer.snapshot.statcache import Record, join_names, pack_signatures, split_names

# A folder that holds one of these is a Python environment: large, and of no use on another machine.
_ENVIRONMENT_MARKS = (b"pyvenv.cfg", b"conda-meta")
_FETCHED = b"assets"
_ODD = {stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a pipe", stat.S_IFBLK: "a device", stat.S_IFCHR: "a device"}


class Folder(NamedTuple):
    """One folder as the walk saw it. `values` are the signatures of `files`, one after the other.

    `skipped` maps each ignored name to whether it is a folder; `only` are the folders entered for tracked
    files alone. `record` is last time's, and `unchanged` says that it still holds in everything.
    """

    path: bytes
    incoming: bytes
    rules: bytes
    files: list[bytes]
    values: list[int]
    folders: list[bytes]
    skipped: dict[bytes, bool]
    only: list[bytes]
    record: Record | None
    unchanged: bool


class Walk(NamedTuple):
    """The whole tree in the order of the paths; `rules` is the fingerprint of all of git's rules met."""

    folders: list[Folder]
    rules: bytes


def walk(root: bytes, rules: Rules, records: dict[bytes, Record]) -> Walk:
    """Look at every folder that is not ignored; SnapshotError for one that cannot be read."""
    found: list[Folder] = []
    texts: list[tuple[bytes, bytes]] = []
    stack = [(b"", rules)]
    while stack:
        path, incoming = stack.pop()
        where = root + b"/" + path if path else root
        try:
            looked = _look(where, path, incoming, records.get(path))
        except OSError as error:
            if path and isinstance(error, (FileNotFoundError, NotADirectoryError)):
                continue  # removed since its parent was read
            raise unreadable(root, path, error, is_folder=True) from error
        if not looked:
            continue
        folder, inside = looked
        found.append(folder)
        if inside.git is not incoming.git:
            texts.append((path, inside.git[0].patterns.text))
        prefix = path + b"/" if path else b""
        for name in folder.folders:
            stack.append((prefix + name, inside.for_child(ONLY_TRACKED if name in folder.only else KEEP)))
    found.sort(key=lambda folder: folder.path)
    digest = hashlib.sha256(b"".join(layer.patterns.text for layer in rules.git))
    for path, text in sorted(texts):
        digest.update(path + b"\0" + hashlib.sha256(text).digest())
    return Walk(found, digest.digest())


def unreadable(root: bytes, path: bytes, error: OSError, *, is_folder: bool) -> SnapshotError:
    """The error for something that belongs to the snapshot and cannot be read."""
    kind = "folder" if is_folder else "file"
    line = os.fsdecode(escape(path)) + ("/" if is_folder else "")
    shown = os.fsdecode(os.path.join(root, path))
    hint = f"make it readable, or leave it out: add the line `{line}` to .goferignore" if path else None
    return SnapshotError(f"cannot read the {kind} `{shown}`: {error.strerror}", hint=hint)


def _is_left_out(folder: Folder, incoming: Rules) -> bool:
    """Python environments, and a folder that holds nothing but logs gofer fetched."""
    if folder.path == _FETCHED:
        return bool(folder.skipped) and not folder.files and not folder.folders
    names = join_names(folder.files) + b"/" + join_names(folder.folders)
    if not folder.path or not any(mark in names for mark in _ENVIRONMENT_MARKS):
        return False
    marked = any(mark in folder.files or mark in folder.folders for mark in _ENVIRONMENT_MARKS)
    return marked and not incoming.names(folder.path)


def _look(where: bytes, path: bytes, incoming: Rules, record: Record | None) -> tuple[Folder, Rules] | None:
    """The folder and the rules in it; None when it is left out as a whole, and so has no record."""
    if record and record.incoming == incoming.fingerprint:
        again = _look_again(where, path, incoming, record)
        if again:
            return again
    folder, inside = _look_anew(where, path, incoming, record)
    return None if _is_left_out(folder, incoming) else (folder, inside)


def _look_again(where: bytes, path: bytes, incoming: Rules, record: Record) -> tuple[Folder, Rules] | None:
    """The folder with last time's verdicts; None when its names or rules are not what they were."""
    skipped = dict.fromkeys(split_names(record.skipped), False)
    skipped.update(dict.fromkeys(split_names(record.skipped_folders), True))
    files: list[bytes] = []
    folders: list[bytes] = []
    try:
        values = _scan_known(where, skipped, files, folders)
    except FileNotFoundError:  # removed since the folder was read
        return None
    names = join_names(files)
    if values is None or names != record.files or join_names(folders) != record.folders:
        return None
    inside = _enter(where, path, incoming, b"/".join((names, record.skipped)))
    if inside.fingerprint != record.rules:
        return None
    only = split_names(record.only)
    if pack_signatures(values) == record.signatures:
        files, values = [], []  # the record has them, and together they are most of the memory
        same = True
    else:
        same = False
    marks = (incoming.fingerprint, inside.fingerprint)
    return Folder(path, *marks, files, values, folders, skipped, only, record, same), inside


def _scan_known(
    where: bytes, skipped: dict[bytes, bool], files: list[bytes], folders: list[bytes]
) -> list[int] | None:
    """Fill `files` and `folders`; the signatures, or None when the ignored entries are not all as they were.

    This loop is most of what an unchanged snapshot costs.
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
                status = entry.stat(follow_symlinks=False)
                files.append(name)
                values += (
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                    status.st_ino,
                    status.st_size,
                    status.st_mode,
                )
    return None if left else values


def _look_anew(where: bytes, path: bytes, incoming: Rules, record: Record | None) -> tuple[Folder, Rules]:
    """The folder with every entry judged."""
    with os.scandir(where) as scanned:
        entries = list(scanned)
    inside = _enter(where, path, incoming, join_names([entry.name for entry in entries]))
    judge = inside.judge(path)
    files: list[bytes] = []
    folders: list[bytes] = []
    skipped: dict[bytes, bool] = {}
    only: list[bytes] = []
    values: list[int] = []
    for entry in entries:
        name = entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        verdict = judge(name, is_folder)
        if verdict == SKIP:
            skipped[name] = is_folder
        elif is_folder:
            folders.append(name)
            if verdict == ONLY_TRACKED:
                only.append(name)
        elif signature := _signature(entry):
            files.append(name)
            values += signature
    marks = (incoming.fingerprint, inside.fingerprint)
    return Folder(path, *marks, files, values, folders, skipped, only, record, False), inside


def _signature(entry: os.DirEntry[bytes]) -> tuple[int, ...] | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # removed since the folder was read
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size, status.st_mode


def _enter(where: bytes, path: bytes, incoming: Rules, names: bytes) -> Rules:
    """The rules in the folder; a rule file that is itself ignored still counts, as in git."""
    git = read_rules(where + b"/" + GIT_FILE) if GIT_FILE in names else None
    own = read_rules(where + b"/" + OWN_FILE) if OWN_FILE in names else None
    return incoming.enter(path, git, own)


def odd_kind(mode: int) -> str | None:
    """What it is, when it is neither a file nor a link."""
    return _ODD.get(stat.S_IFMT(mode))
