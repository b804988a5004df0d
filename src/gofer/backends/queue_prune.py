"""What a machine with a queue keeps: copies of mapped folders, output that could not be uploaded, agents of
other gofer versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gofer.backends.base import Prunable, PruneBounds
from gofer.core import prune
from gofer.core.prune import KeptItem
from gofer.errors import BackendError, GoferError
from gofer.model.ids import split_row
from gofer.remote.api import KeptItemsApi
from gofer.remote.calls import describe
from gofer.transport.bundle import mark
from gofer.transport.machine import Machine

# Timeouts. A tree of many files on a slow disk takes long to measure and longer to remove.
FIND_S = 300.0
REMOVE_S = 1800.0

WHY = {
    prune.COPY: "no run has used it since; the next run that needs it copies it again",
    prune.AGENT: "of another version of gofer and not needed by any run; gofer installs it again when needed",
    prune.REMAINS: "left by an interrupted removal",
    prune.UNSENT: "its run is being removed",
    prune.WORKING_COPY: "its run wrote more than `keep` allows; they cannot be fetched after the removal",
    prune.PACKAGES: "no run has used them since; the next run that needs them builds them again",
}


class MachinePlace:
    """One machine. `folder` is gofer's folder there, which holds the agents; None on this machine, which
    needs no installed agent. `name` is the name of the place for people.
    """

    def __init__(
        self, name: str, machine: Machine, *, queue_home: str | None, folder: str | None = None
    ) -> None:
        self.name = name
        self._machine = machine
        self._queue_home = queue_home
        self._folder = folder

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        with explained(self._machine):
            found = self._kept_items(FIND_S).find(bounds.unused_since, self._agent())
        return [self._item(item, bounds) for item in found if may_go(item, bounds)]

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        named = [(item.kind, item.name) for item in doomed]
        with explained(self._machine):
            removed = self._kept_items(REMOVE_S).remove(named, bounds.unused_since, self._agent())
        return [item for item in doomed if (item.kind, item.name) in removed]

    def _item(self, kept: KeptItem, bounds: PruneBounds) -> Prunable:
        why = why_of(kept, bounds)
        if kept.kind == prune.COPY:
            why = f"a copy of {kept.about}; {why}"
        if kept.kind == prune.PACKAGES:
            why = f"packages of {kept.about}; {why}"
        return Prunable(self.name, kept.kind, kept.name, kept.size, kept.at, why)

    def _kept_items(self, wait_s: float) -> KeptItemsApi:
        return self._machine.kept_items(self._queue_home, self._folder, wait_s=wait_s)

    def _agent(self) -> str:
        """The mark of the agent of this version, which stays."""
        if self._folder is None:
            return ""
        return mark()


@contextmanager
def explained(machine: Machine) -> Iterator[None]:
    """Raises BackendError in place of an error of a call; Unreachable passes."""
    try:
        yield
    except GoferError:
        raise
    except Exception as error:
        words = describe(error)
        raise BackendError(f"{machine.name} cannot remove what is not needed: {words}") from error


def may_go(kept: prune.KeptItem, bounds: PruneBounds) -> bool:
    """Whether a found item may be removed now.

    Output that could not be uploaded is removed only with its run; a working copy with its run or by age.
    """
    if kept.kind == prune.UNSENT:
        return goes(kept.about, bounds)
    if kept.kind == prune.WORKING_COPY:
        return goes(kept.about, bounds) or prune.is_old_copy(kept.at, bounds.unused_since)
    return True


def why_of(kept: prune.KeptItem, bounds: PruneBounds) -> str:
    """Why an item is removed, in words."""
    is_with_run = kept.kind == prune.WORKING_COPY and goes(kept.about, bounds)
    return WHY[prune.UNSENT if is_with_run else kept.kind]


def goes(run_id: str, bounds: PruneBounds) -> bool:
    """Whether a run is removed as a whole, by itself or with its group."""
    return run_id in bounds.whole or split_row(run_id)[0] in bounds.whole
