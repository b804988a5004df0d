"""What lies in a run's folder, read with distrust: absent, torn or foreign files are None, never a crash.

Speaks only the Store contract and the names of gofer.agent.folder; knows nothing of sessions or the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from gofer.agent import folder as names
from gofer.agent.states import Reason, State
from gofer.errors import KeyNotFound

if TYPE_CHECKING:
    from gofer.storage.base import Store

T = TypeVar("T")

# Enough to hide the latency of an object store, few enough to be polite.
READERS = 16
# Beside `tags.json` in the folder of a group: the tags of its rows, by their index.
ROW_TAGS = "row-tags.json"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The first rank of a node to fail, with the last lines of its log."""

    rank: int
    exit_code: int | None = None
    signal: int | None = None
    at: float | None = None
    tail: tuple[str, ...] = ()


class RankEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the command of one rank ended."""

    rank: int
    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at: float | None = None
    ended_at: float | None = None


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`exit.json`: how one node's part of one attempt ended, by its own clock."""

    state: State
    ended_at: float
    node: int = 0
    reason: Reason | None = None
    detail: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    first_failure: Failure | None = None
    started_at: float | None = None
    elapsed_s: float = 0.0
    ranks: tuple[RankEnd, ...] = ()


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of one GPU; what the driver did not tell is None."""

    index: int
    name: str | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    utilisation: float | None = None


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """`heartbeat.json`: the last sign of life of one node."""

    at: float
    gpus: tuple[GpuUse, ...] = ()
    rss_mib: float | None = None


class End(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `ends.jsonl`: a run is over and the queue will not start it again."""

    id: str
    state: State
    row: int | None = None
    reason: str | None = None
    detail: str | None = None
    exit_code: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    elapsed_s: float | None = None
    attempts: list[dict[str, Any]] = []


def decode(data: bytes | None, kind: type[T]) -> T | None:
    """The value, or None where there is no data or it is not of this shape."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_odd(data, kind)


def _decode_odd(data: bytes, kind: type[T]) -> T | None:
    """Text that is not UTF-8 is written as lone surrogates, which msgspec refuses and json takes."""
    try:
        return msgspec.convert(json.loads(data), kind, str_keys=True)
    except (ValueError, RecursionError):
        return None


def read_lines(data: bytes, kind: type[T]) -> Iterator[T]:
    """The lines of a `.jsonl` file that have this shape, in order; torn and foreign ones are passed over."""
    decoder = msgspec.json.Decoder(kind)
    for line in data.split(b"\n"):
        try:
            value = decoder.decode(line) if line else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            value = _decode_odd(line, kind)
        if value is not None:
            yield value


def read(store: Store, key: str) -> bytes | None:
    """The object, or None when absent; StoreError when the store cannot be read."""
    try:
        return store.get(key)
    except KeyNotFound:
        return None


def read_many(store: Store, keys: Sequence[str]) -> Iterator[bytes | None]:
    """`read` of each key, in order, several at a time."""
    if len(keys) <= 1:
        yield from (read(store, key) for key in keys)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(READERS, len(keys))) as pool:
        yield from pool.map(lambda key: read(store, key), keys)


def attempt_numbers(store: Store, run_id: str) -> list[int]:
    """The attempts that left a trace, in order."""
    return sorted(int(name) for name in store.list_folders(names.attempts_key(run_id)) if name.isdecimal())


def node_numbers(store: Store, run_id: str, attempt: int) -> list[int]:
    """The nodes of an attempt that left a trace, in order."""
    prefix = f"{names.attempts_key(run_id)}/{attempt}"
    found = (name.removeprefix("node-") for name in store.list_folders(prefix) if name.startswith("node-"))
    return sorted(int(number) for number in found if number.isdecimal())


def exit_records(store: Store, run_id: str, attempt: int) -> dict[int, ExitRecord | None]:
    """How each node of an attempt ended; None for a node that has not said so."""
    nodes = node_numbers(store, run_id, attempt)
    keys = [f"{names.node_key(run_id, attempt, node)}/{names.EXIT}" for node in nodes]
    return {node: decode(data, ExitRecord) for node, data in zip(nodes, read_many(store, keys), strict=True)}


def heartbeats(store: Store, run_id: str, attempt: int) -> dict[int, Heartbeat]:
    """The last sign of life of each node of an attempt; nodes without one are left out."""
    nodes = node_numbers(store, run_id, attempt)
    keys = [f"{names.node_key(run_id, attempt, node)}/{names.HEARTBEAT}" for node in nodes]
    beats = (decode(data, Heartbeat) for data in read_many(store, keys))
    return {node: beat for node, beat in zip(nodes, beats, strict=True) if beat is not None}


def first_failure(records: dict[int, ExitRecord | None]) -> tuple[int, Failure] | None:
    """(node, failure) of the rank that failed first by the clock; one without a time comes last."""
    failures = [(node, r.first_failure) for node, r in records.items() if r is not None and r.first_failure]
    if not failures:
        return None
    return min(failures, key=lambda one: (one[1].at is None, one[1].at or 0.0, one[0]))
