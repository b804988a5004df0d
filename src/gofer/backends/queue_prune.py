"""What a machine with a queue keeps: copies of mapped folders, output that could not be uploaded, agents of
other gofer versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gofer.backends.base import Prunable, PruneBounds
from gofer.core import prune
from gofer.core.prune import KeptItem
from gofer.errors import BackendError
from gofer.model.ids import split_row
from gofer.transport.machine import Machine, RemoteFailure

# Timeouts. A tree of many files on a slow disk takes long to measure and longer to remove.
LOOK_S = 300.0
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
        self._where: dict[str, Any] = {"queue_home": queue_home, "folder": folder, "own": ""}

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        found = self._call("look", LOOK_S, bounds)
        kept = (KeptItem(*item) for item in found)
        return [self._item(item, bounds) for item in kept if may_go(item, bounds)]

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        named = [[item.kind, item.name] for item in doomed]
        done = {tuple(item) for item in self._call("remove", REMOVE_S, bounds, doomed=named)}
        return [item for item in doomed if (item.kind, item.name) in done]

    def _item(self, kept: KeptItem, bounds: PruneBounds) -> Prunable:
        why = why_of(kept, bounds)
        if kept.kind == prune.COPY:
            why = f"a copy of {kept.about}; {why}"
        if kept.kind == prune.PACKAGES:
            why = f"packages of {kept.about}; {why}"
        return Prunable(self.name, kept.kind, kept.name, kept.size, kept.at, why)

    def _call(self, verb: str, wait_s: float, bounds: PruneBounds, **more: Any) -> Any:
        where = dict(self._where)
        if where["folder"] is not None:
            from gofer.transport.bundle import mark

            where["own"] = mark()
        return ask(self._machine, verb, wait_s, unused_since=bounds.unused_since, **where, **more)


def ask(machine: Machine, verb: str, wait_s: float, **arguments: Any) -> Any:
    """Call a verb of gofer.remote.prune_verbs. BackendError when it fails, Unreachable without an answer."""
    try:
        return machine.call(f"prune.{verb}", wait_s=wait_s, **arguments).value
    except RemoteFailure as error:
        raise BackendError(f"{machine.name} cannot remove what is not needed: {error.words}") from error


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
