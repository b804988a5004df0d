"""Lists that may be long: short lists stay in memory, longer ones go to a temporary file. Also sorts them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO

_IN_MEMORY = 4 << 20
_READ_AT_ONCE = 1 << 16
_SORTED_AT_ONCE = 200_000


class Spool:
    """Records in the order of their addition. For one thread at a time; add all before reading."""

    def __init__(self, records: Iterable[bytes] = ()) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - lives as long as this
        self._count = 0
        for record in records:
            self.add(record)

    def add(self, record: bytes) -> None:
        self._file.write(len(record).to_bytes(4, "little"))
        self._file.write(record)
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        """All records from the first. A new iteration ends an older one."""
        self._file.seek(0)
        held = b""
        while more := self._file.read(_READ_AT_ONCE):
            held += more
            at, end = 0, _end(held, 0)
            while end <= len(held):
                yield held[at + 4 : end]
                at, end = end, _end(held, end)
            held = held[at:]


def _end(held: bytes, at: int) -> int:
    """Where the record at `at` ends; beyond `held` when its length is incomplete."""
    size = held[at : at + 4]
    return at + 4 + int.from_bytes(size, "little") if len(size) == 4 else len(held) + 1


def in_order(records: Iterable[bytes], *, most: int = _SORTED_AT_ONCE) -> Iterator[bytes]:
    """The records sorted, with about `most` of them in memory at a time."""
    source = iter(records)
    chunk = sorted(islice(source, most))
    if len(chunk) < most:
        return iter(chunk)
    runs: list[Iterable[bytes]] = []
    while chunk:
        runs.append(Spool(chunk))
        chunk = sorted(islice(source, most))
    return heapq.merge(*runs)
