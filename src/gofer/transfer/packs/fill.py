"""Pack local files into packs. Reads them in order and checks that none changes during the read."""

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
    """A file to pack: its name in the folder, its path, and its size and time when it was found."""

    name: bytes
    path: str
    size: int
    modified_ns: int


class Filler:
    """Makes packs from files. `files`, `changed` and `failed` are complete when `packs` is exhausted.

    Packs are numbered from 0. Equal files give equal packs, so that a repeated run finds the packs of a
    killed one. For use by one thread.
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
        """The file's entry; None when the file changed while it was being read."""
        # O_NONBLOCK: a file that became a pipe must not block.
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            before = os.fstat(descriptor)
            # A small file starts a new pack unless it fits completely into this one, so that a single request
            # reads it.
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
        """Remove the bytes of a failed file from the pack, unless that pack has been handed out."""
        if pack == self._pack:
            del self._data[offset:]


def md5_of(path: str) -> bytes | None:
    """The MD5 of a file; None when the file cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()
    except OSError:
        return None


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino
