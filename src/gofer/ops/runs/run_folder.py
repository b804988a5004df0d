"""Read the files of a run's folder without trusting them: absent, incomplete or foreign files are None.

`RunFolder` is the folder as it was at one moment. Uses only the Store contract and the names of
gofer.core.run_layout, not sessions or the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from gofer.core import run_layout as names
from gofer.core.json_text import parse_count
from gofer.core.parallel import parallel_map
from gofer.core.states import State
from gofer.errors import KeyNotFound
from gofer.model.bounds import Amount, Count, Seconds
from gofer.model.decode import decode as decode
from gofer.model.run import RecordedOutcome
from gofer.ops.logs.joined_parts import JoinedStore

if TYPE_CHECKING:
    from gofer.storage.base import ObjectInfo, Store
    from gofer.tracking.rows import RunRow

T = TypeVar("T")

# Enough threads to hide the latency of an object store, and few enough not to overload it.
READERS = 16
# A record of 100,000 rows with 500 bytes each is shorter.
MOST_RECORD_BYTES = 64 << 20
# In the folder of a group, beside `tags.json`: the tags of its rows, by index.
ROW_TAGS = "row-tags.json"
# Of the objects of a run, at most this many are listed in advance in addition to the attempts: one page of an
# object store.
_MOST_IN_ADVANCE = 5_000
_FOLDERS = ("file:", "ssh:")
_NODE = re.compile(r"([0-9]{1,18})/node-([0-9]{1,18})/.")


class LogFile(NamedTuple):
    """One log in the store. `kind` is `rank` or `setup`; a set-up log belongs to a node and has no rank."""

    key: str
    node: int
    rank: int | None
    attempt: int
    size: int
    kind: str


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


class ExitRecord(RecordedOutcome, frozen=True, kw_only=True, omit_defaults=False):
    """`exit.json`: how one node's part of one attempt ended, by its own clock.

    `kept` is for gofer.node.kept.records.decode_kept.
    """

    ended_at: Seconds
    elapsed_s: Seconds = 0.0
    node: Count = 0
    signal: Count | None = None
    first_failure: Failure | None = None
    ranks: tuple[RankEnd, ...] = ()
    kept: object = None


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
    """One line of `ends.jsonl`: a run is over and the queue will not start it again.

    The fields of an outcome, except that the reason may be one that only a newer gofer knows.
    """

    id: str
    state: State
    row: Count | None = None
    reason: str | None = None
    detail: str | None = None
    exit_code: Count | None = None
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    elapsed_s: Seconds | None = None
    attempts: list[dict[str, object]] = []


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


def first_failure(records: dict[int, ExitRecord | None]) -> tuple[int, Failure] | None:
    """(node, failure) of the rank that failed first by the clock. A failure without a time comes last."""
    failures = [(node, r.first_failure) for node, r in records.items() if r is not None and r.first_failure]
    if not failures:
        return None
    return min(failures, key=lambda one: (one[1].at is None, one[1].at or 0.0, one[0]))


def list_logs(store: Store, run_id: str, attempt: int | None = None) -> list[LogFile]:
    """The logs that a run has now, or those of one attempt; see `RunFolder.logs`."""
    return _logs_among(store.list(names.attempts_key(run_id) + ("" if attempt is None else f"/{attempt}")))


def attempt_numbers(store: Store, run_id: str) -> list[int]:
    """The numbers of attempts that have a folder now, in order."""
    numbers = map(parse_count, store.list_folders(names.attempts_key(run_id)))
    return sorted(number for number in numbers if number is not None)


def _logs_among(found: Iterable[ObjectInfo]) -> list[LogFile]:
    logs = []
    for info in found:
        place = names.parse_log_key(info.key)
        if place is not None and (info.size or place[2] is not None):
            number, node, rank = place
            kind = "setup" if rank is None else "rank"
            logs.append(LogFile(info.key, node, rank, number, info.size, kind))
    return sorted(logs, key=lambda log: (log.attempt, log.node, -1 if log.rank is None else log.rank))


class RunFolder:
    """The folder of one run, listed when it is first needed and then never again. For one thread.

    Files that appear after the listing are absent, and files that grow are read as they are then. With
    `whole`, files that the command left will be wanted too (`list_place`), and an object store is listed once
    for all. Each method may raise StoreError.
    """

    def __init__(self, store: Store, run_id: str, *, whole: bool = False) -> None:
        self.store = store
        self.run_id = run_id
        # A store that is a folder lists the folders of attempts, outputs and files one by one: this is as
        # fast, and one of them that cannot be read does not hide the others.
        self.is_folder = store.url.startswith(_FOLDERS)
        self._whole = whole and not self.is_folder
        self._exits: dict[int, dict[int, ExitRecord | None]] = {}

    @cached_property
    def _listed(self) -> tuple[list[ObjectInfo], list[ObjectInfo] | None]:
        """The objects of the attempts, and all others; None in place of others that are not known."""
        attempts = names.attempts_key(self.run_id) + "/"
        found = self._list(names.run_key(self.run_id) if self._whole else attempts[:-1])
        inside: list[ObjectInfo] = []
        others: list[ObjectInfo] = []
        for info in found:
            (inside if info.key.startswith(attempts) else others).append(info)
            # The keys are in order, so everything in `attempts` was listed before any larger key.
            if len(others) > _MOST_IN_ADVANCE and info.key > attempts and others[-1] is info:
                return inside, None
        return inside, others if self._whole else None

    def _list(self, prefix: str) -> Iterator[ObjectInfo]:
        if not isinstance(self.store, JoinedStore):
            return self.store.list(prefix)
        self.store, found = self.store.list_once(prefix)
        return found

    @property
    def attempt_files(self) -> list[ObjectInfo]:
        """The objects below `attempts/`, in key order."""
        return self._listed[0]

    def list_place(self, place: str) -> Iterator[ObjectInfo]:
        """The objects below a folder of the run, such as `outputs`, listed again if there are very many."""
        prefix = f"{names.run_key(self.run_id)}/{place}"
        others = self._listed[1] if self._whole else None
        if others is None:
            return self.store.list(prefix)
        return (info for info in others if info.key.startswith(f"{prefix}/"))

    @cached_property
    def attempts(self) -> list[int]:
        """The numbers of attempts that have a folder, in order."""
        if self.is_folder:  # which also has folders that are still empty
            return attempt_numbers(self.store, self.run_id)
        return sorted({attempt for attempt, _ in self._nodes})

    @cached_property
    def _nodes(self) -> list[tuple[int, int]]:
        """(attempt, node) of each node that has a file, in order."""
        top = names.attempts_key(self.run_id) + "/"
        matches = (_NODE.match(info.key, len(top)) for info in self.attempt_files)
        return sorted({(int(match[1]), int(match[2])) for match in matches if match})

    def nodes(self, attempt: int) -> list[int]:
        """The numbers of nodes that have a file in an attempt, in order."""
        return [node for number, node in self._nodes if number == attempt]

    @cached_property
    def logs(self) -> list[LogFile]:
        """The logs, sorted by attempt, node and rank, set-up first. Empty set-up logs are left out."""
        return _logs_among(self.attempt_files)

    def last_written(self, attempt: int) -> float | None:
        """When a log of the attempt was last written; None when no log has a byte."""
        own = f"{names.attempts_key(self.run_id)}/{attempt}/"
        times = (
            float(info.modified)
            for info in self.attempt_files
            if info.size and info.key.startswith(own) and names.parse_log_key(info.key)
        )
        return max(times, default=None)

    def exit_records(self, attempt: int) -> dict[int, ExitRecord | None]:
        """The exit record of each node of an attempt; None for a node without one. Read once."""
        if attempt not in self._exits:
            data = self.read_nodes(attempt, names.EXIT)
            self._exits[attempt] = {node: decode(data.get(node), ExitRecord) for node in self.nodes(attempt)}
        return self._exits[attempt]

    def heartbeats(self, attempt: int) -> dict[int, Heartbeat]:
        """The last heartbeat of each node of an attempt. Nodes without one are left out."""
        found = self.read_nodes(attempt, names.HEARTBEAT)
        beats = {node: decode(data, Heartbeat) for node, data in found.items()}
        return {node: beat for node, beat in beats.items() if beat is not None}

    def read_nodes(self, attempt: int, name: str) -> dict[int, bytes]:
        """The file `name` of each node of an attempt that has one."""
        nodes = [node for node in self.nodes(attempt) if self.has(self._node_key(attempt, node, name))]
        files = read_many(self.store, [self._node_key(attempt, node, name) for node in nodes])
        return {node: data for node, data in zip(nodes, files, strict=True) if data is not None}

    def read_end(self, attempt: int, node: int, name: str, length: int) -> bytes:
        """The last bytes of a file of a node; b"" when there is none."""
        key = self._node_key(attempt, node, name)
        if not self.has(key):
            return b""
        try:
            return self.store.get_range(key, -length, length)
        except KeyNotFound:
            return b""

    def read_beginning(self, attempt: int, node: int, name: str, length: int) -> bytes:
        """The first bytes of a file of a node; b"" when there is none."""
        key = self._node_key(attempt, node, name)
        try:
            return self.store.get_range(key, 0, length) if self.has(key) else b""
        except KeyNotFound:
            return b""

    def newest_of_nodes(self, name: str) -> dict[int, bytes]:
        """The file `name` of each node, from the last attempt in which the node wrote one."""
        key_of = {
            node: self._node_key(attempt, node, name)
            for attempt, node in self._nodes
            if self.has(self._node_key(attempt, node, name))
        }
        nodes = sorted(key_of)
        files = read_many(self.store, [key_of[node] for node in nodes])
        return {node: data for node, data in zip(nodes, files, strict=True) if data is not None}

    def has(self, key: str) -> bool:
        """Whether the attempts have an object of this key."""
        return key in self._keys

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(info.key for info in self.attempt_files)

    def _node_key(self, attempt: int, node: int, name: str) -> str:
        return f"{names.node_key(self.run_id, attempt, node)}/{name}"

    def last_attempt(self, row: RunRow) -> int:
        """The number of the last attempt, by the ledger or else by the folder; 0 when there was none."""
        numbers = [int(one["number"]) for one in row.attempts] or self.attempts
        return numbers[-1] if numbers else 0
