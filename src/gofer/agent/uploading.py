"""Sends what a command left in a mapped folder to its place in a store: only what is new there or differs."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from gofer.agent.abreast import Tally, each
from gofer.agent.chore import ChoreFailed, Say
from gofer.agent.objects.facts import ObjectInfo, ObjectsError
from gofer.agent.remote_folder import RemoteFolder, describe, explain

AT_ONCE = 16
_TRIES = 3
# Up to so many files the store is asked for each; for more, one listing is cheaper.
_MOST_QUESTIONS = 100
_PIECE_BYTES = 1 << 20


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


def upload(spec: Mapping[str, Any], folder: str, names: List[str], say: Say) -> None:
    """Make the store's folder have these files. Says how far it is. ChoreFailed, ObjectsError or OSError."""
    work = _Upload(RemoteFolder(spec), folder, Tally(say))
    each(work.sized(names), work.send, at_once=AT_ONCE)
    work.tally.tell()


class _Upload:
    def __init__(self, remote: RemoteFolder, folder: str, tally: Tally) -> None:
        self._remote = remote
        self._folder = folder
        self._known: Optional[Dict[str, ObjectInfo]] = None
        self.tally = tally

    def sized(self, names: List[str]) -> Iterator[str]:
        """The names, counted; first the store is asked what it has, if they are many."""
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
            for _ in range(_TRIES):
                status = os.stat(path)
                if not self._is_there(name, path, status):
                    self._remote.write(name, path, status)
                # Whatever still writes it, the store is to have it as it is in the end.
                if _stamp(os.stat(path)) == _stamp(status):
                    self.tally.moved(status.st_size, files=1)
                    return
        except (ObjectsError, OSError) as error:
            raise explain(name, error) from error
        raise ChoreFailed(f"`{name}` changes while it is sent")

    def _is_there(self, name: str, path: str, status: os.stat_result) -> bool:
        info = self._remote.head(name) if self._known is None else self._known.get(name)
        if info is None or info.size != status.st_size:
            return False
        if info.md5:
            return info.md5 == _md5(path)
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
