"""Lets clusters report changes of runs, so that a person who waits for a run sees its end at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gofer.backends import registry
from gofer.backends.base import RunRef
from gofer.ops.runs.freshness import target_key

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


class ClusterWatch:
    """Watches runs in a thread for each target that reports changes, until `end`. The next refresh of a run
    that has changed asks its cluster, whatever the interval of its questions is.
    """

    def __init__(self) -> None:
        self._over = threading.Event()
        self._has_begun = False

    def begin(self, session: Session, rows: Sequence[RunRow]) -> None:
        """Watch these runs, the first time that there are any. Does not block."""
        if self._has_begun or not rows:
            return
        self._has_begun = True
        groups: dict[tuple[str, ...], list[RunRow]] = {}
        for row in rows:
            if not registry.runs_here(row.backend):
                groups.setdefault(target_key(row), []).append(row)
        for group in groups.values():
            refs = list(dict.fromkeys(RunRef(row.group_id or row.id) for row in group))
            changes = session.backend_of(group[0]).watch(refs, self._over.is_set)
            if changes is not None:
                # A daemon: the watch may be silent for a minute when the command ends.
                threading.Thread(target=_consume, args=(changes,), daemon=True).start()

    def end(self) -> None:
        """Let the threads end. Does not wait for them."""
        self._over.set()


def _consume(changes: Iterator[None]) -> None:
    deque(changes, maxlen=0)
