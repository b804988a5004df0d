"""Compares source and destination: pairs two sorted streams of entries, and judges each pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gofer.transfer.entries import FileEntry, from_record, order, to_record
from gofer.transfer.spool import in_order

SEND, SAME, UNSURE = "send", "same", "unsure"

_SECOND_NS = 1_000_000_000


class OutOfOrder(Exception):
    """A stream that must be sorted is not. Pairs made so far may be wrong."""


def pair(
    source: Iterable[FileEntry], destination: Iterable[FileEntry]
) -> Iterator[tuple[FileEntry | None, FileEntry | None]]:
    """Every entry once, with the entry of the same path on the other side.

    OutOfOrder for an unsorted stream.
    """
    left, right = _strictly(source), _strictly(destination)
    here, there = next(left, None), next(right, None)
    while here or there:
        if there is None or (here and here[0] < there[0]):
            assert here  # the loop condition
            yield here[1], None
            here = next(left, None)
        elif here is None or there[0] < here[0]:
            yield None, there[1]
            there = next(right, None)
        else:
            yield here[1], there[1]
            here, there = next(left, None), next(right, None)


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
