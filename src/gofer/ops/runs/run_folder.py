"""Read the files of a run's folder without trusting them: absent, incomplete or foreign files are None.

Uses only the Store contract and the names of gofer.core.run_layout, not sessions or the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from gofer.core import run_layout as names
from gofer.core.numerals import parse_count
from gofer.core.parallel import parallel_map
from gofer.core.states import Reason, State
from gofer.errors import KeyNotFound
from gofer.model.bounds import Amount, Count, Seconds
from gofer.model.decode import decode as decode

if TYPE_CHECKING:
    from gofer.storage.base import Store

T = TypeVar("T")

# Enough threads to hide the latency of an object store, and few enough not to overload it.
READERS = 16
# A record of 100,000 rows with 500 bytes each is shorter.
MOST_RECORD_BYTES = 64 << 20
# In the folder of a group, beside `tags.json`: the tags of its rows, by index.
ROW_TAGS = "row-tags.json"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The first rank of a node to fail, with the last lines of its log."""

    rank: Count
    exit_code: Count | None = None
    signal: Count | None = None
    at: Seconds | None = None
    tail: tuple[str, ...] = ()


class RankEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the command of one rank ended."""

    rank: Count
    pid: Count | None = None
    exit_code: Count | None = None
    signal: Count | None = None
    started_at: Seconds | None = None
    ended_at: Seconds | None = None


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`exit.json`: how one node's part of one attempt ended, by its own clock.

    `kept` is for gofer.node.kept.records.decode_kept.
    """

    state: State
    ended_at: Seconds
    node: Count = 0
    reason: Reason | None = None
    detail: str | None = None
    exit_code: Count | None = None
    signal: Count | None = None
    first_failure: Failure | None = None
    started_at: Seconds | None = None
    elapsed_s: Seconds = 0.0
    ranks: tuple[RankEnd, ...] = ()
    kept: Any = None


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of one GPU. Values that the driver does not report are None."""

    index: Count
    name: str | None = None
    memory_used_mib: Amount | None = None
    memory_total_mib: Amount | None = None
    utilisation: Amount | None = None
    memory_peak_mib: Amount | None = None
    utilisation_peak: Amount | None = None


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """`heartbeat.json`: the last heartbeat of one node."""

    at: Seconds
    gpus: tuple[GpuUse, ...] = ()
    rss_mib: Amount | None = None
    rss_peak_mib: Amount | None = None


class End(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `ends.jsonl`: a run is over and the queue will not start it again."""

    id: str
    state: State
    row: Count | None = None
    reason: str | None = None
    detail: str | None = None
    exit_code: Count | None = None
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    elapsed_s: Seconds | None = None
    attempts: list[dict[str, Any]] = []


def read_lines(data: bytes, kind: type[T]) -> Iterator[T]:
    """The lines of a `.jsonl` file that have this form, in order. Incomplete and foreign lines are
    skipped.
    """
    for line in data.split(b"\n"):
        value = decode(line, kind) if line else None
        if value is not None:
            yield value


def read(store: Store, key: str) -> bytes | None:
    """The object, or None when it is absent; StoreError when the store cannot be read.

    If an object is larger than any record, only its beginning is read, which does not decode as a record.
    """
    try:
        return store.get_range(key, 0, MOST_RECORD_BYTES)
    except KeyNotFound:
        return None


def read_many(store: Store, keys: Sequence[str]) -> Iterator[bytes | None]:
    """The objects of these keys, in order, read in parallel."""
    yield from parallel_map(lambda key: read(store, key), keys, at_once=READERS)


def attempt_numbers(store: Store, run_id: str) -> list[int]:
    """The numbers of attempts that have a folder, in order."""
    numbers = map(parse_count, store.list_folders(names.attempts_key(run_id)))
    return sorted(number for number in numbers if number is not None)


def node_numbers(store: Store, run_id: str, attempt: int) -> list[int]:
    """The numbers of nodes that have a folder in an attempt, in order."""
    prefix = f"{names.attempts_key(run_id)}/{attempt}"
    found = (name.removeprefix("node-") for name in store.list_folders(prefix) if name.startswith("node-"))
    return sorted(number for number in map(parse_count, found) if number is not None)


def exit_records(store: Store, run_id: str, attempt: int) -> dict[int, ExitRecord | None]:
    """The exit record of each node of an attempt; None for a node without one."""
    nodes = node_numbers(store, run_id, attempt)
    keys = [f"{names.node_key(run_id, attempt, node)}/{names.EXIT}" for node in nodes]
    return {node: decode(data, ExitRecord) for node, data in zip(nodes, read_many(store, keys), strict=True)}


def heartbeats(store: Store, run_id: str, attempt: int) -> dict[int, Heartbeat]:
    """The last heartbeat of each node of an attempt. Nodes without one are left out."""
    nodes = node_numbers(store, run_id, attempt)
    keys = [f"{names.node_key(run_id, attempt, node)}/{names.HEARTBEAT}" for node in nodes]
    beats = (decode(data, Heartbeat) for data in read_many(store, keys))
    return {node: beat for node, beat in zip(nodes, beats, strict=True) if beat is not None}


def first_failure(records: dict[int, ExitRecord | None]) -> tuple[int, Failure] | None:
    """(node, failure) of the rank that failed first by the clock. A failure without a time comes last."""
    failures = [(node, r.first_failure) for node, r in records.items() if r is not None and r.first_failure]
    if not failures:
        return None
    return min(failures, key=lambda one: (one[1].at is None, one[1].at or 0.0, one[0]))
