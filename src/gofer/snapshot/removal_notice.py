"""Removal notices in a store say which code is being removed, so that no submission relies on that code.

The order of steps makes this exact. A removal writes its notice, then reads which code runs need, then
deletes code, then deletes the notice. A submission writes its manifest, then reads the notices. Either the
removal sees the manifest and keeps the code, or the submission sees the notice and sends the code again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from gofer.core import processes
from gofer.core.code.packs import read_object
from gofer.core.json_text import parse_json
from gofer.errors import KeyNotFound, SnapshotError

if TYPE_CHECKING:
    from gofer.snapshot.stores import DeletableStore, ObjectStore

NOTICES = "removals"
_POLL_S = 0.2
_WAIT_S = 60.0
_ABANDONED_S = 3600.0


class _Notice(NamedTuple):
    """The removal of some objects by a process, as gofer.core.processes names it, on the machine `host`."""

    process: str
    host: str
    keys: frozenset[str]

    @property
    def is_dead(self) -> bool:
        """Whether the process is known to have ended.

        For a process of another machine this is never known.
        """
        return self.host == os.uname().nodename and not processes.is_named_alive(self.process)


@contextmanager
def announce(store: DeletableStore, keys: Collection[str]) -> Iterator[None]:
    """Keep a notice about the objects `keys` in the store while the block runs."""
    notice = f"{NOTICES}/{os.urandom(8).hex()}"
    content = {"process": processes.name_of_this(), "host": os.uname().nodename, "keys": sorted(keys)}
    store.put(notice, json.dumps(content).encode(), new=True)
    try:
        yield
    finally:
        store.delete([notice])


def delete_abandoned(store: DeletableStore) -> None:
    """Delete notices of killed removals: those of dead processes here, and all older than an hour."""
    abandoned = []
    for info in store.list(NOTICES):
        notice = _read(store, info.key)
        if (notice is not None and notice.is_dead) or time.time() - info.modified > _ABANDONED_S:
            abandoned.append(info.key)
    store.delete(abandoned)


def is_being_removed(store: ObjectStore, keys: Iterable[str]) -> bool:
    """Whether a notice names any of the objects `keys`."""
    return bool(_notices_of(store, frozenset(keys)))


def wait_for_removal(store: ObjectStore, keys: Iterable[str]) -> frozenset[str]:
    """Wait until no notice names any of the objects `keys`; return those that a notice named.

    These may be gone then. Blocks for at most a minute; SnapshotError when the removal has not ended by then.
    """
    wanted = frozenset(keys)
    named: frozenset[str] = frozenset()
    end = time.monotonic() + _WAIT_S
    while notices := _notices_of(store, wanted):
        named = named.union(*(notice.keys & wanted for notice in notices))
        if time.monotonic() > end:
            raise SnapshotError(
                f"code that this run needs is being removed from {store.url} by `gofer prune --code` on "
                f"{notices[0].host}",
                hint="wait for its end; if it was killed, run `gofer prune --code` again an hour later",
            )
        time.sleep(_POLL_S)
    return named


def _notices_of(store: ObjectStore, wanted: frozenset[str]) -> list[_Notice]:
    """The notices of removals that may still be running and name one of the objects."""
    notices = [_read(store, info.key) for info in store.list(NOTICES)]
    return [it for it in notices if it and not it.is_dead and not wanted.isdisjoint(it.keys)]


def _read(store: ObjectStore, key: str) -> _Notice | None:
    """The notice; None when the removal has just ended, or when the object is not a notice."""
    try:
        content = parse_json(read_object(store.get_range, key))
        return _Notice(str(content["process"]), str(content["host"]), frozenset(map(str, content["keys"])))
    except (KeyNotFound, ValueError, KeyError, TypeError):
        return None
