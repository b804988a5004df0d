"""The objects of one mapped folder, whatever kind of store they lie in, and the times they are known by."""

from __future__ import annotations

import calendar
import os
import re
import time
import zlib
from typing import Any, Iterator, Mapping, Optional

from gofer.node.cancellable_task import ChoreFailed
from gofer.objects import open_objects
from gofer.objects.facts import ObjectInfo, ObjectNotFound

_PIECE_BYTES = 1 << 20
_WHOLE_BYTES = 4 << 20
_SECOND_NS = 1_000_000_000
_EXECUTABLE = 0o100
_NOTED_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z")


class RemoteFolder:
    """Names are relative to the folder. Any thread may call; ObjectsError and OSError pass through.

    `spec` is what `open_objects` takes. Of a store that is a folder here, `prefix` says where in it.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._root: Optional[str] = spec["root"] if spec["kind"] == "file" else None
        self._lead = spec.get("prefix", "") if self._root is not None else ""
        self._objects = open_objects(spec)

    def list(self) -> Iterator[ObjectInfo]:
        """Every object in the folder; ChoreFailed when the store itself is not there."""
        if self._root is not None and not os.path.isdir(self._root):
            raise ChoreFailed(f"the store's folder {self._root} is not there")
        for info in self._objects.list(self._lead):
            name = info.key[len(self._lead) :].lstrip("/") if self._lead else info.key
            if name:
                yield info._replace(key=name)

    def head(self, name: str) -> Optional[ObjectInfo]:
        info = self._objects.head(self._key(name))
        return None if info is None else info._replace(key=name)

    def read(self, info: ObjectInfo) -> Iterator[bytes]:
        """Its bytes in pieces; ObjectsError when it is gone or changes meanwhile."""
        key = self._key(info.key)
        if info.size <= _WHOLE_BYTES:
            yield self._objects.get(key)
        elif hasattr(self._objects, "get_stream"):
            yield from self._objects.get_stream(key)
        else:
            for start in range(0, info.size, _PIECE_BYTES):
                yield self._objects.get_range(key, start, _PIECE_BYTES)

    def write(
        self, name: str, path: str, status: os.stat_result, *, new: bool = False, etag: Optional[str] = None
    ) -> None:
        """Replace the object by the bytes of a file.

        With `new`, Exists when the object is there. With `etag`, VersionMismatch when the object is another
        version; for a large object this is checked only before it is sent.
        """
        metadata = describe(status)
        if status.st_size <= _WHOLE_BYTES:
            with open(path, "rb") as file:
                self._objects.put(self._key(name), file.read(), new=new, etag=etag, metadata=metadata)
        else:
            self._objects.put_stream(self._key(name), _pieces(path), metadata=metadata)

    def path_of(self, name: str) -> Optional[str]:
        """Where the object is a file of this machine; None for other stores."""
        return None if self._root is None else os.path.join(self._root, self._key(name))

    def _key(self, name: str) -> str:
        return f"{self._lead}/{name}" if self._lead else name


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while True:
            data = file.read(_PIECE_BYTES)
            if not data:
                return
            yield data


def is_gone(error: Exception) -> bool:
    """Whether the object, and not the store, is not there."""
    return isinstance(error, ObjectNotFound)


def explain(name: str, error: Exception) -> ChoreFailed:
    """What kept one file from being moved, with its name."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ChoreFailed(f"`{name}`: {words}")


def stamp_ns(info: ObjectInfo) -> int:
    """A time that tells this version of the object from any other: its own second, and then its tag."""
    if info.etag:
        return int(info.modified) * _SECOND_NS + zlib.crc32(info.etag.encode()) % _SECOND_NS
    return int(info.modified * _SECOND_NS)


def mtime_ns(info: ObjectInfo) -> Optional[int]:
    """The time of the file that the object was made of, as `describe` noted it; None where nobody did."""
    found = _NOTED_TIME.fullmatch((info.metadata or {}).get("mtime", ""))
    if found is None:
        return None
    try:
        seconds = calendar.timegm(time.strptime(found[1], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None
    return seconds * _SECOND_NS + int((found[2] or "0").ljust(9, "0")[:9])


def is_executable(info: ObjectInfo) -> bool:
    """As `gofer upload` notes it beside an object."""
    mode = (info.metadata or {}).get("mode", "")
    return bool(re.fullmatch(r"[0-7]{3,7}", mode)) and bool(int(mode, 8) & _EXECUTABLE)


def is_marker(info: ObjectInfo) -> bool:
    """Whether the object only says that there is a folder, as other tools leave them."""
    return info.key.endswith("/") or (info.metadata or {}).get("hdi_isfolder") == "true"


def describe(status: os.stat_result) -> Mapping[str, str]:
    """What goes beside the object: as `gofer upload` writes it, and rclone reads it."""
    seconds, rest = divmod(status.st_mtime_ns, _SECOND_NS)
    words = {}
    if 0 <= seconds < 253_402_300_800:  # the end of the year 9999
        words["mtime"] = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"
    if status.st_mode & _EXECUTABLE:
        words["mode"] = "100755"
    return words
