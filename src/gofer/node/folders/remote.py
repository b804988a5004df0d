"""Read and write the objects of one mapped folder, in any kind of store, and encode object versions as file
times.
"""

from __future__ import annotations

import calendar
import os
import re
import time
import zlib
from typing import Iterator, Mapping, Optional

from gofer.core.store_spec import StoreSpec
from gofer.node.cancellable_task import WorkFailed
from gofer.objects import open_objects
from gofer.objects.facts import ObjectInfo, ObjectNotFound

_PIECE_BYTES = 1 << 20
_WHOLE_BYTES = 4 << 20
_SECOND_NS = 1_000_000_000
_EXECUTABLE = 0o100
_NOTED_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z")


class RemoteFolder:
    """The objects of one folder; names are relative to it. Any thread may call. ObjectsError and OSError pass
    through.

    `spec` is what `open_objects` takes. When the store is a folder on this machine, `prefix` is the path in
    it.
    """

    def __init__(self, spec: StoreSpec) -> None:
        self._root: Optional[str] = spec["root"] if spec["kind"] == "file" else None
        self._lead = spec.get("prefix", "") if self._root is not None else ""
        self._objects = open_objects(spec)

    def list(self) -> Iterator[ObjectInfo]:
        """Every object in the folder; WorkFailed when the store itself does not exist."""
        if self._root is not None and not os.path.isdir(self._root):
            raise WorkFailed(f"the store's folder {self._root} does not exist")
        for info in self._objects.list(self._lead):
            name = info.key[len(self._lead) :].lstrip("/") if self._lead else info.key
            if name:
                yield info._replace(key=name)

    def head(self, name: str) -> Optional[ObjectInfo]:
        info = self._objects.head(self._key(name))
        return None if info is None else info._replace(key=name)

    def read(self, info: ObjectInfo) -> Iterator[bytes]:
        """The bytes of an object in pieces; ObjectsError when the object is gone or changes in the
        meantime.
        """
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

        With `new`, Exists when the object exists. With `etag`, VersionMismatch when the object has another
        version. For a large object, both are checked only before the transfer.
        """
        metadata = describe(status)
        if status.st_size <= _WHOLE_BYTES:
            with open(path, "rb") as file:
                self._objects.put(self._key(name), file.read(), new=new, etag=etag, metadata=metadata)
        else:
            self._objects.put_stream(self._key(name), _pieces(path), metadata=metadata)

    def path_of(self, name: str) -> Optional[str]:
        """The path of the object if the store is a folder on this machine; else None."""
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
    """Whether the object is absent, and not the whole store."""
    return isinstance(error, ObjectNotFound)


def explain(name: str, error: Exception) -> WorkFailed:
    """An error that names the file that could not be transferred."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return WorkFailed(f"`{name}`: {words}")


def stamp_ns(info: ObjectInfo) -> int:
    """A file time that identifies this version of the object: its second, and a hash of its tag as the
    fraction.
    """
    if info.etag:
        return int(info.modified) * _SECOND_NS + zlib.crc32(info.etag.encode()) % _SECOND_NS
    return int(info.modified * _SECOND_NS)


def mtime_ns(info: ObjectInfo) -> Optional[int]:
    """The modification time of the original file, from the metadata that `describe` wrote; None when there is
    none.
    """
    found = _NOTED_TIME.fullmatch((info.metadata or {}).get("mtime", ""))
    if found is None:
        return None
    try:
        seconds = calendar.timegm(time.strptime(found[1], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None
    return seconds * _SECOND_NS + int((found[2] or "0").ljust(9, "0")[:9])


def is_executable(info: ObjectInfo) -> bool:
    """Whether the object was an executable file, according to the metadata that `gofer upload` writes."""
    mode = (info.metadata or {}).get("mode", "")
    return bool(re.fullmatch(r"[0-7]{3,7}", mode)) and bool(int(mode, 8) & _EXECUTABLE)


def is_marker(info: ObjectInfo) -> bool:
    """Whether the object only marks a folder. Other tools write such objects."""
    return info.key.endswith("/") or (info.metadata or {}).get("hdi_isfolder") == "true"


def describe(status: os.stat_result) -> Mapping[str, str]:
    """The metadata of an object, in the form that `gofer upload` writes and rclone reads."""
    seconds, rest = divmod(status.st_mtime_ns, _SECOND_NS)
    words = {}
    if 0 <= seconds < 253_402_300_800:  # the end of the year 9999
        words["mtime"] = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"
    if status.st_mode & _EXECUTABLE:
        words["mode"] = "100755"
    return words
