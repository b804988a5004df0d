"""Where the lease of an elastic run is: files in a folder, or an object in a store. Conditional writes.

    runs/<id>/elastic/lease.<n>     in a folder: version n of the lease
    runs/<id>/elastic/lease         in an object store
    runs/<id>/elastic/wish.json     what a person wishes with `gofer scale`

Every method blocks, and raises OSError or ObjectsError when the store does not answer. Then nobody knows
whether a write has arrived.
"""

from __future__ import annotations

import abc
import os
from typing import Any, Dict, Optional

from gofer.core import files, run_layout
from gofer.core.json_text import parse_count, parse_json
from gofer.node.elastic import records
from gofer.node.elastic.records import LeaderLease
from gofer.objects.base import ObjectService
from gofer.objects.facts import Exists, ObjectNotFound, VersionMismatch

_LEASE = "lease"
_KEPT_VERSIONS = 3


class LeaseStore(abc.ABC):
    """The lease of one run. An object remembers the version that it has read or written last."""

    @abc.abstractmethod
    def read(self) -> Optional[LeaderLease]:
        """The lease; None when there is none."""

    @abc.abstractmethod
    def write(self, lease: LeaderLease) -> bool:
        """Replace the version that was read or written last; create the lease if there was none. False when
        the lease has another version by now.
        """

    @abc.abstractmethod
    def wish(self) -> Optional[Dict[str, Any]]:
        """What a person wishes: see `ElasticRules.with_wish`. None when nobody has wished anything."""


class FolderLease(LeaseStore):
    """The lease as files in `folder`, which all agents of the run see.

    A version is a file of its own, which is complete when it gets its name, and a name is given only once:
    a hard link fails where the name exists. This needs no lock, so it also works between machines.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._version = 0

    def read(self) -> Optional[LeaderLease]:
        for _ in range(_KEPT_VERSIONS):  # a version that was just replaced can vanish before it is read
            version = max(self._versions(), default=0)
            if not version:
                break
            found = _decoded(files.read_json(self._path(version)))
            if found is not None:
                self._version = version
                return found
        self._version = 0
        return None

    def write(self, lease: LeaderLease) -> bool:
        os.makedirs(self._folder, exist_ok=True)
        version = self._version + 1
        temporary = os.path.join(self._folder, f"{os.getpid()}-{os.urandom(6).hex()}.tmp")
        try:
            files.write_whole(temporary, files.encode(lease.encode()), durable=True)
            os.link(temporary, self._path(version))
        except FileExistsError:
            return False
        finally:
            files.remove(temporary)
        versions = self._versions()
        if max(versions) > version:  # the name was free only because old versions are removed
            files.remove(self._path(version))
            return False
        for old in versions:
            if old <= version - _KEPT_VERSIONS:
                files.remove(self._path(old))
        self._version = version
        return True

    def wish(self) -> Optional[Dict[str, Any]]:
        return files.read_json(os.path.join(self._folder, run_layout.WISH))

    def _path(self, version: int) -> str:
        return os.path.join(self._folder, f"{_LEASE}.{version}")

    def _versions(self) -> list[int]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        numbers = [parse_count(name[len(_LEASE) + 1 :]) for name in names if name.startswith(f"{_LEASE}.")]
        return [number for number in numbers if number is not None]


class ObjectLease(LeaseStore):
    """The lease as an object, written with If-Match. `prefix` is the folder of the run's messages."""

    def __init__(self, objects: ObjectService, prefix: str) -> None:
        self._objects = objects
        self._key = f"{prefix}/{_LEASE}"
        self._wish_key = f"{prefix}/{run_layout.WISH}"
        self._etag: Optional[str] = None
        self._written: Optional[LeaderLease] = None  # a write whose version is not known yet

    def read(self) -> Optional[LeaderLease]:
        self._written = None
        info = self._objects.head(self._key)
        self._etag = None if info is None else info.etag
        if info is None:
            return None
        buffer = bytearray(info.size)
        size = self._objects.read_into(self._key, 0, memoryview(buffer), etag=info.etag)
        return _decoded(_parsed(bytes(buffer[:size])))

    def write(self, lease: LeaderLease) -> bool:
        if self._written is not None:
            expected = self._written
            if self.read() != expected:
                return False
        data = files.encode(lease.encode())
        try:
            self._objects.put(self._key, data, new=self._etag is None, etag=self._etag)
        except (Exists, VersionMismatch):
            return False
        self._written = records.decode_lease(lease.encode())
        return True

    def wish(self) -> Optional[Dict[str, Any]]:
        try:
            return _parsed(self._objects.get(self._wish_key))
        except ObjectNotFound:
            return None


def _parsed(data: bytes) -> Optional[Dict[str, Any]]:
    try:
        value = parse_json(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _decoded(value: Optional[Dict[str, Any]]) -> Optional[LeaderLease]:
    try:
        return None if value is None else records.decode_lease(value)
    except (KeyError, TypeError):
        return None
