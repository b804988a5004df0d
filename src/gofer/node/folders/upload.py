"""Sends what a command left in a mapped folder to its place in a store: only what is new there or differs.

A file that the store had when the run began, and has still, is replaced and named. One that came or changed
meanwhile stays; the run's own goes beside it, under a name with the run's id.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import time
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from gofer.core.parallel import ProgressTally, Say, each
from gofer.node.cancellable_task import ChoreFailed
from gofer.node.folders.remote import RemoteFolder, describe, explain
from gofer.objects.facts import Exists, ObjectInfo, ObjectsError, VersionMismatch

AT_ONCE = 16
_TRIES = 3
# Up to so many files the store is asked for each; for more, one listing is cheaper.
_MOST_QUESTIONS = 100
_PIECE_BYTES = 1 << 20
# More of a folder is not remembered; the time of an object says then whether it is new.
_MOST_SEEN = 20_000
_SEEN_AT_ONCE = 500
_CLOCKS_S = 5.0


class Left(NamedTuple):
    """What lies in a folder: the names of its files, and of what is no file and no folder."""

    files: List[str]
    others: List[str]


def look(folder: str) -> Left:
    """What the command left. A link to a file is the file; one to a folder, or to nothing, is other."""
    found = Left([], [])
    for where, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(where, name))]
        for name in sorted(names + links):
            path = os.path.join(where, name)
            is_file = name not in links and os.path.isfile(path)
            (found.files if is_file else found.others).append(os.path.relpath(path, folder))
    return found


class ObjectVersions:
    """The versions of the objects of a folder by name, as they were `at` that time."""

    def __init__(self) -> None:
        self.versions: Dict[str, str] = {}
        self.is_whole = False
        self.at = time.time()

    def hear(self, message: Mapping[str, Any]) -> None:
        """A part of what `look_at_store` says."""
        self.versions.update(message.get("seen", {}))
        self.is_whole = bool(message.get("is_whole", self.is_whole))

    def had(self, info: ObjectInfo) -> bool:
        """Whether this version was there."""
        if self.is_whole or info.key in self.versions:
            return self.versions.get(info.key) == _version(info)
        return info.modified < self.at - _CLOCKS_S


def look_at_store(spec: Mapping[str, Any], say: Say) -> None:
    """Say what the store's folder has, in parts for `Seen.hear`, up to 20,000 objects."""
    part: Dict[str, str] = {}
    for number, info in enumerate(RemoteFolder(spec).list()):
        if number == _MOST_SEEN:
            say({"seen": part})
            return
        part[info.key] = _version(info)
        if len(part) == _SEEN_AT_ONCE:
            say({"seen": part})
            part = {}
    say({"seen": part, "is_whole": True})


def _version(info: ObjectInfo) -> str:
    return info.etag or f"{info.size} {info.modified!r}"


class FolderUpload(NamedTuple):
    """Files below `folder`, and what was `seen` in the store. `mark` goes into names of files kept beside."""

    folder: str
    names: List[str]
    seen: ObjectVersions
    mark: str


def upload(spec: Mapping[str, Any], sending: FolderUpload, say: Say) -> None:
    """Make the store's folder have these files. Says how far it is, and at last which were `replaced`, and
    which are `beside` others: pairs of names. ChoreFailed, ObjectsError or OSError.
    """
    work = _Upload(RemoteFolder(spec), sending, ProgressTally(say))
    try:
        each(work.sized(), work.send, at_once=AT_ONCE)
    finally:
        if work.replaced or work.beside:
            say({"replaced": sorted(work.replaced), "beside": sorted(work.beside)})
    work.tally.tell()


class _Upload:
    def __init__(self, remote: RemoteFolder, sending: FolderUpload, tally: ProgressTally) -> None:
        self._remote = remote
        self._sending = sending
        self._folder = sending.folder
        self._known: Optional[Dict[str, ObjectInfo]] = None
        self.replaced: List[str] = []
        self.beside: List[Tuple[str, str]] = []
        self.tally = tally

    def sized(self) -> Iterator[str]:
        """The names, counted; first the store is asked what it has, if they are many."""
        names = self._sending.names
        if len(names) > _MOST_QUESTIONS:
            wanted = set(names)
            self._known = {info.key: info for info in self._remote.list() if info.key in wanted}
        for name in names:
            self.tally.found(os.stat(os.path.join(self._folder, name)).st_size)
        yield from names

    def send(self, name: str) -> None:
        """In any thread."""
        path = os.path.join(self._folder, name)
        try:
            info = self._remote.head(name) if self._known is None else self._known.get(name)
            for _ in range(_TRIES):
                status = os.stat(path)
                try:
                    self._send(name, path, status, info)
                except (Exists, VersionMismatch):  # somebody else was first
                    info = self._remote.head(name)
                    continue
                # Whatever still writes it, the store is to have it as it is in the end.
                if _stamp(os.stat(path)) == _stamp(status):
                    self.tally.moved(status.st_size, files=1)
                    return
                info = self._remote.head(name)
        except (ObjectsError, OSError) as error:
            raise explain(name, error) from error
        raise ChoreFailed(f"`{name}` changes while it is sent")

    def _send(self, name: str, path: str, status: os.stat_result, info: Optional[ObjectInfo]) -> None:
        """Replace the object `info`, or write a new one. Exists or VersionMismatch if there is another."""
        if info is None:
            self._remote.write(name, path, status, new=True)
            self._sending.seen.versions[name] = ""
        elif self._is_same(name, path, status, info):
            return
        elif self._is_own(name) or self._sending.seen.had(info):
            self._remote.write(name, path, status, etag=info.etag)
            if not self._is_own(name):
                self.replaced.append(name)
        else:
            other = self._name_beside(name)
            self._remote.write(other, path, status)
            self.beside.append((name, other))

    def _is_own(self, name: str) -> bool:
        """Whether this upload made it, and the command wrote it meanwhile."""
        return self._sending.seen.versions.get(name) == ""

    def _name_beside(self, name: str) -> str:
        folder, slash, base = name.rpartition("/")
        stem, dot, rest = base.partition(".") if not base.startswith(".") else (base, "", "")
        return f"{folder}{slash}{stem}.{self._sending.mark}{dot}{rest}"

    def _is_same(self, name: str, path: str, status: os.stat_result, info: ObjectInfo) -> bool:
        if info.size != status.st_size:
            return False
        if info.md5:
            return info.md5 == _md5(path)
        here = self._remote.path_of(name)
        if here is not None:
            return filecmp.cmp(path, here, shallow=False)
        stamp = describe(status).get("mtime")
        return stamp is not None and (info.metadata or {}).get("mtime") == stamp


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _md5(path: str) -> bytes:
    hashed = hashlib.md5()
    with open(path, "rb") as file:
        while True:
            data = file.read(_PIECE_BYTES)
            if not data:
                return hashed.digest()
            hashed.update(data)
