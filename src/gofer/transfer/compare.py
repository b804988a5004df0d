"""Compares source and destination: pairs two sorted streams of entries and judges each pair. Where size and
time do not decide, threads compare the contents by MD5.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from gofer.errors import StoreError
from gofer.storage.base import Blocks, OnDisk
from gofer.transfer.endpoints import End, LocalEnd, StoreEnd
from gofer.transfer.entries import FileEntry, from_record, order, to_record
from gofer.transfer.object_upload import block_size
from gofer.transfer.spool import in_order

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

SEND, SAME, UNSURE = "send", "same", "unsure"

_SECOND_NS = 1_000_000_000

_CHUNK = 1 << 20
# S3's ETag of an object uploaded in parts: the MD5 of the parts' MD5s, and the number of parts.
_IN_PARTS = re.compile(r'"?([0-9a-f]{32})-(\d+)"?')

_THREADS = 16
_AHEAD = 64


class OutOfOrder(Exception):
    """A stream that must be sorted is not. Pairs made so far may be wrong."""


def pair(
    source: Iterable[FileEntry], destination: Iterable[FileEntry]
) -> Iterator[tuple[FileEntry | None, FileEntry | None]]:
    """Every entry once, with the entry of the same path on the other side.

    OutOfOrder for an unsorted stream.
    """
    left, right = _strictly(source), _strictly(destination)
    ours, theirs = next(left, None), next(right, None)
    while ours or theirs:
        if theirs is None or (ours and ours[0] < theirs[0]):
            assert ours  # the loop condition
            yield ours[1], None
            ours = next(left, None)
        elif ours is None or theirs[0] < ours[0]:
            yield None, theirs[1]
            theirs = next(right, None)
        else:
            yield ours[1], theirs[1]
            ours, theirs = next(left, None), next(right, None)


def sort(entries: Iterable[FileEntry]) -> Iterator[FileEntry]:
    """The entries, sorted, in bounded memory."""
    return map(from_record, in_order(map(to_record, entries)))


def judge(source: FileEntry, destination: FileEntry | None, *, checksum: bool) -> str:
    """SEND, SAME, or UNSURE when only the contents can decide.

    Files of equal size are the same when their contents were made at the same time. Where the store knows
    only when the object arrived, they are the same when it arrived no earlier than the content was made. With
    different times, a known MD5 decides.
    """
    if destination is None or destination.size != source.size:
        return SEND
    if checksum:
        return UNSURE
    if source.recorded and destination.recorded:
        same = _one_moment(source.mtime_ns, destination.mtime_ns)
    else:
        same = destination.mtime_ns >= source.mtime_ns
    if same:
        return SAME
    if source.md5 or destination.md5 or _within_a_second(source, destination):
        return UNSURE
    return SEND


def _one_moment(one_ns: int, other_ns: int) -> bool:
    """Whether two times are equal in the resolution of the coarser file system: ns, µs or s."""
    if one_ns == other_ns:
        return True
    coarse_ns = next(
        (grain_ns for grain_ns in (_SECOND_NS, 1000) if not (one_ns % grain_ns and other_ns % grain_ns)), 1
    )
    return one_ns // coarse_ns == other_ns // coarse_ns


def _within_a_second(source: FileEntry, destination: FileEntry) -> bool:
    """Whether the times differ only within a second that the store cannot resolve."""
    counts_seconds = not destination.recorded and destination.mtime_ns % _SECOND_NS == 0
    return counts_seconds and destination.mtime_ns // _SECOND_NS == source.mtime_ns // _SECOND_NS


def _strictly(entries: Iterable[FileEntry]) -> Iterator[tuple[bytes, FileEntry]]:
    previous: bytes | None = None
    for entry in entries:
        current = order(entry.path)
        if previous is not None and current <= previous:
            # A listing of several pages can repeat an entry.
            if current == previous:
                continue
            raise OutOfOrder
        previous = current
        yield current, entry


def are_equal(source: End, destination: End, entry: FileEntry, other: FileEntry) -> bool:
    """Whether the contents have the same MD5. Raises OSError and StoreError.

    False also when one end does not know its MD5 and cannot compute it here: the file is then sent.
    """
    # Ask the store first, because it may not know an MD5; then the local file is not read for nothing.
    if isinstance(source, LocalEnd):
        source, destination, entry, other = destination, source, other, entry
    known = md5_of(source, entry)
    if known is not None:
        return known == md5_of(destination, other)
    if isinstance(source, StoreEnd) and isinstance(destination, LocalEnd):
        return _is_in_parts(_path(destination, other), source, entry)
    return False


def md5_of(end: End, entry: FileEntry) -> bytes | None:
    """The MD5 of the content; None when the object would have to be downloaded. OSError, StoreError."""
    if isinstance(end, LocalEnd):
        return md5_of_file(_path(end, entry))
    if entry.md5 is not None:
        return entry.md5
    key = end.key(entry.path)
    info = end.store.head(key)
    if info and info.md5 is None and isinstance(end.store, OnDisk):
        return md5_of_file(end.store.path(key))
    return info.md5 if info else None


def md5_of_file(path: Path) -> bytes:
    """The MD5 of a file; OSError when it cannot be read."""
    with open(path, "rb", buffering=0) as file:
        return _md5(file.fileno(), file.seek(0, os.SEEK_END), 0)


def _is_in_parts(path: Path, end: StoreEnd, entry: FileEntry) -> bool:
    """Whether the file, uploaded in the parts that gofer makes, would have the object's ETag."""
    found = _IN_PARTS.fullmatch(entry.etag or "")
    if not found or not isinstance(end.store, Blocks):
        return False
    block = block_size(entry.size, end.store.block_rules)
    # Another number of parts: the object was not uploaded by gofer, so the ETag says nothing.
    if -(-entry.size // block) != int(found[2]):
        return False
    with open(path, "rb", buffering=0) as file:
        parts = [_md5(file.fileno(), block, start) for start in range(0, entry.size, block)]
    return hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest() == found[1]


def _md5(file: int, size: int, start: int) -> bytes:
    digest = hashlib.md5(usedforsecurity=False)
    end = start + size
    while start < end and (chunk := os.pread(file, min(_CHUNK, end - start), start)):
        digest.update(chunk)
        start += len(chunk)
    return digest.digest()


def _path(end: LocalEnd, entry: FileEntry) -> Path:
    return end.path / entry.path if entry.path else end.path


class ContentComparer:
    """A context. Answers come in the order of the questions. For use by one thread."""

    def __init__(self, source: End, destination: End, jobs: int) -> None:
        self._ends = source, destination
        self._jobs = jobs or _THREADS
        self._pool: ThreadPoolExecutor | None = None
        self._comparisons: deque[tuple[FileEntry, Future[bool]]] = deque()

    def __enter__(self) -> ContentComparer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def submit(self, entry: FileEntry, other: FileEntry) -> None:
        """Start to compare an entry of the source with the entry of the destination."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._jobs, "gofer-compare")
        self._comparisons.append((entry, self._pool.submit(self._compare, entry, other)))

    def results(self, *, ahead: int = _AHEAD) -> Iterator[tuple[FileEntry, bool]]:
        """The oldest answers, until only `ahead` are outstanding. Waits for them."""
        while len(self._comparisons) > ahead:
            entry, equal = self._comparisons.popleft()
            yield entry, equal.result()

    def _compare(self, entry: FileEntry, other: FileEntry) -> bool:
        try:
            return are_equal(*self._ends, entry, other)
        except (OSError, StoreError):  # then send the file: the transfer reports what is wrong
            return False
