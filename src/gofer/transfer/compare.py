"""Source against destination: two streams in the same order become pairs, and each pair a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gofer.transfer.entries import FileEntry, from_record, order, to_record
from gofer.transfer.spool import in_order

SEND, SAME, UNSURE = "send", "same", "unsure"

_SECOND_NS = 1_000_000_000


class OutOfOrder(Exception):
    """A stream that was to be sorted is not; what was paired so far may be wrong."""


def pair(
    source: Iterable[FileEntry], destination: Iterable[FileEntry]
) -> Iterator[tuple[FileEntry | None, FileEntry | None]]:
    """Every entry once, beside the one of the same path on the other side; OutOfOrder when that is seen."""
    left, right = _strictly(source), _strictly(destination)
    here, there = next(left, None), next(right, None)
    while here or there:
        if there is None or (here and here[0] < there[0]):
            assert here  # one of them is there
            yield here[1], None
            here = next(left, None)
        elif here is None or there[0] < here[0]:
            yield None, there[1]
            there = next(right, None)
        else:
            yield here[1], there[1]
            here, there = next(left, None), next(right, None)


def sort(entries: Iterable[FileEntry]) -> Iterator[FileEntry]:
    """The entries in order, with bounded memory."""
    return map(from_record, in_order(map(to_record, entries)))


def judge(source: FileEntry, destination: FileEntry | None, *, checksum: bool) -> str:
    """SEND, SAME, or UNSURE when only the contents can tell.

    Files of one size are the same when they were made at the same time, or, where the store knows only when
    the object came to it, when that was no earlier. Where an MD5 is known anyway, other times send nothing.
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
    """Equal as far as the coarser of two file systems can tell: nanoseconds, microseconds or seconds."""
    if one_ns == other_ns:
        return True
    coarse_ns = next(
        (grain_ns for grain_ns in (_SECOND_NS, 1000) if not (one_ns % grain_ns and other_ns % grain_ns)), 1
    )
    return one_ns // coarse_ns == other_ns // coarse_ns


def _within_a_second(source: FileEntry, destination: FileEntry) -> bool:
    """Whether a store that counts in seconds leaves open which came first."""
    counts_seconds = not destination.recorded and destination.mtime_ns % _SECOND_NS == 0
    return counts_seconds and destination.mtime_ns // _SECOND_NS == source.mtime_ns // _SECOND_NS


def _strictly(entries: Iterable[FileEntry]) -> Iterator[tuple[bytes, FileEntry]]:
    previous: bytes | None = None
    for entry in entries:
        current = order(entry.path)
        if previous is not None and current <= previous:
            if current == previous:
                continue
            raise OutOfOrder
        previous = current
        yield current, entry
