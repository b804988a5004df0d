"""Files of this machine become packs: read one behind the other, each checked not to change meanwhile."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from gofer.transfer.packs.index import Packed

PACK_BYTES = 8 << 20
_CHUNK = 1 << 20
_TRIES = 2


class LocalFile(NamedTuple):
    """A file to pack: its name in the folder, where it is, and what its status said when it was found."""

    name: bytes
    path: str
    size: int
    modified_ns: int


class Filler:
    """Turns files into packs. `files`, `changed` and `failed` are complete once `packs` is used up.

    Packs are counted from 0. Those of the same files are the same, so that a run that was killed finds its
    own again. For one thread.
    """

    def __init__(self) -> None:
        self.files: list[Packed] = []
        self.changed: list[str] = []
        self.failed: list[tuple[str, str]] = []
        self._pack = 0
        self._data = bytearray()

    def packs(self, files: Iterable[LocalFile]) -> Iterator[bytes]:
        for file in files:
            yield from self._add(file)
        if self._data:
            yield self._next()

    def _add(self, file: LocalFile) -> Iterator[bytes]:
        for _ in range(_TRIES):
            start = (self._pack, len(self._data))
            try:
                entry = yield from self._read(file)
            except OSError as error:
                self._forget(*start)
                self.failed.append((file.path, (error.strerror or str(error)).lower()))
                return
            if entry:
                self.files.append(entry)
                return
            self._forget(*start)
        self.changed.append(file.path)

    def _read(self, file: LocalFile) -> Generator[bytes, None, Packed | None]:
        """The file's entry; None when it is not as it was before its first byte was read."""
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            before = os.fstat(descriptor)
            # A small file begins where there is room for all of it, so that one read brings it back.
            if self._data and before.st_size > PACK_BYTES - len(self._data):
                yield self._next()
            start = (self._pack, len(self._data))
            digest, size = hashlib.md5(usedforsecurity=False), 0
            while chunk := os.read(descriptor, min(_CHUNK, PACK_BYTES - len(self._data))):
                digest.update(chunk)
                self._data += chunk
                size += len(chunk)
                if len(self._data) == PACK_BYTES:
                    yield self._next()
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if size != after.st_size or _stamp(before) != _stamp(after):
            return None
        return Packed(file.name, *start, size, after.st_mtime_ns, after.st_mode & 0o777, digest.digest())

    def _next(self) -> bytes:
        full, self._data = bytes(self._data), bytearray()
        self._pack += 1
        return full

    def _forget(self, pack: int, offset: int) -> None:
        """What was read in vain stays out, unless its pack is on its way."""
        if pack == self._pack:
            del self._data[offset:]


def md5_of(path: str) -> bytes | None:
    """The sum of a file's bytes; None when it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()
    except OSError:
        return None


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino
