"""Upload the files that a command left in a mapped folder to the store: only files that are new or differ.

An object that the store had when the run began, and that has not changed since, is replaced and reported. An
object that appeared or changed during the run stays; the run's file is stored beside it, under a name with
the run's id.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import time
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from gofer.core.parallel import ProgressTally, SendMessage, each
from gofer.core.store_spec import StoreSpec
from gofer.node.cancellable_task import WorkFailed
from gofer.node.folders.remote import RemoteFolder, describe, explain
from gofer.objects.facts import Exists, ObjectInfo, ObjectsError, VersionMismatch

AT_ONCE = 16
_TRIES = 3
# Up to this many files, each object is looked up; for more files, one listing is cheaper.
_MOST_QUESTIONS = 100
_PIECE_BYTES = 1 << 20
# Versions of at most this many objects are remembered. For other objects, their time tells whether they are
# new.
_MOST_SEEN = 20_000
_SEEN_AT_ONCE = 500
_CLOCKS_S = 5.0


class FolderListing(NamedTuple):
    """The contents of a folder: the names of its files, and of other things that are not folders."""

    files: List[str]
    others: List[str]


def list_files(folder: str) -> FolderListing:
    """List what the command left. A link to a file counts as the file; any other link is listed under
    `others`.
    """
    found = FolderListing([], [])
    for where, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(where, name))]
        for name in sorted(names + links):
            path = os.path.join(where, name)
            is_file = name not in links and os.path.isfile(path)
            (found.files if is_file else found.others).append(os.path.relpath(path, folder))
    return found


class ObjectVersions:
    """The versions of the objects of a folder, by name, at the time `at`."""

    def __init__(self) -> None:
        self.versions: Dict[str, str] = {}
        self.is_whole = False
        self.at = time.time()

    def receive(self, message: Mapping[str, Any]) -> None:
        """Take one message of `read_versions`."""
        self.versions.update(message.get("seen", {}))
        self.is_whole = bool(message.get("is_whole", self.is_whole))

    def had(self, info: ObjectInfo) -> bool:
        """Whether the store had this version of the object."""
        if self.is_whole or info.key in self.versions:
            return self.versions.get(info.key) == _version(info)
        return info.modified < self.at - _CLOCKS_S


def read_versions(spec: StoreSpec, send_message: SendMessage) -> None:
    """Send the versions of up to 20,000 objects of the folder, in messages for `ObjectVersions.receive`."""
    part: Dict[str, str] = {}
    for number, info in enumerate(RemoteFolder(spec).list()):
        if number == _MOST_SEEN:
            send_message({"seen": part})
            return
        part[info.key] = _version(info)
        if len(part) == _SEEN_AT_ONCE:
            send_message({"seen": part})
            part = {}
    send_message({"seen": part, "is_whole": True})


def _version(info: ObjectInfo) -> str:
    return info.etag or f"{info.size} {info.modified!r}"


class FolderUpload(NamedTuple):
    """Files below `folder` to send, and the versions `seen` in the store. `mark` is added to the names of
    files that are stored beside others.
    """

    folder: str
    names: List[str]
    seen: ObjectVersions
    mark: str


def upload(spec: StoreSpec, sending: FolderUpload, send_message: SendMessage) -> None:
    """Send the files to the store's folder. Blocks. `send_message` gets the progress, and at the end the
    names that were `replaced` and the pairs of names `beside` each other. Raises WorkFailed, ObjectsError or
    OSError.
    """
    work = _Upload(RemoteFolder(spec), sending, ProgressTally(send_message))
    try:
        each(work.sized(), work.send, at_once=AT_ONCE)
    finally:
        if work.replaced or work.beside:
            send_message({"replaced": sorted(work.replaced), "beside": sorted(work.beside)})
    work.tally.report()


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
        """The names, after their sizes were counted. For many names, the store is listed first."""
        names = self._sending.names
        if len(names) > _MOST_QUESTIONS:
            wanted = set(names)
            self._known = {info.key: info for info in self._remote.list() if info.key in wanted}
        for name in names:
            self.tally.add_file(os.stat(os.path.join(self._folder, name)).st_size)
        yield from names

    def send(self, name: str) -> None:
        """Send one file. Any thread."""
        path = os.path.join(self._folder, name)
        try:
            info = self._remote.head(name) if self._known is None else self._known.get(name)
            for _ in range(_TRIES):
                status = os.stat(path)
                try:
                    self._send(name, path, status, info)
                except (Exists, VersionMismatch):  # somebody else wrote the object first
                    info = self._remote.head(name)
                    continue
                # If the file changed while it was sent, send it again: the store must have the final version.
                if _stamp(os.stat(path)) == _stamp(status):
                    self.tally.add_moved(status.st_size, files=1)
                    return
                info = self._remote.head(name)
        except (ObjectsError, OSError) as error:
            raise explain(name, error) from error
        raise WorkFailed(f"`{name}` changes while it is sent")

    def _send(self, name: str, path: str, status: os.stat_result, info: Optional[ObjectInfo]) -> None:
        """Replace the object `info`, or create one. Exists or VersionMismatch when another version is in the
        store.
        """
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
        """Whether this upload created the object, so that it may be replaced."""
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
