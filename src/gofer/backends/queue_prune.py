"""What a machine with a queue keeps: copies of mapped folders, what could not be sent, agents of other
versions.
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

# Trees of many files on a slow disk take long to count and longer to remove.
LOOK_S = 300.0
REMOVE_S = 1800.0

WHY = {
    prune.COPY: "no run has used it since; a run that does brings it anew",
    prune.AGENT: "of another version of gofer, and no run needs it; it is sent anew",
    prune.REMAINS: "a removal that was interrupted left it",
    prune.UNSENT: "of a run that is removed",
    prune.WORKING_COPY: "a run wrote more there than `keep` allows; it cannot be fetched afterwards",
    prune.PACKAGES: "no run has used them since; a run that needs them builds them",
}


class EnginePlace:
    """One machine. `folder` is gofer's own there, where agents are kept; None on this machine, which needs
    none. `name` is what a person calls the place.
    """

    def __init__(self, name: str, machine: Machine, *, engine: str | None, folder: str | None = None) -> None:
        self.name = name
        self._machine = machine
        self._where: dict[str, Any] = {"engine": engine, "folder": folder, "own": ""}

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        found = self._call("look", LOOK_S, bounds)
        kept = (KeptItem(*one) for one in found)
        return [self._item(one, bounds) for one in kept if may_go(one, bounds)]

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        named = [[one.kind, one.name] for one in doomed]
        done = {tuple(one) for one in self._call("remove", REMOVE_S, bounds, doomed=named)}
        return [one for one in doomed if (one.kind, one.name) in done]

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
    """What a verb of gofer.remote.prune_verbs answers; BackendError, or Unreachable, when it does not."""
    try:
        return machine.call(f"prune.{verb}", wait_s=wait_s, **arguments).value
    except RemoteFailure as error:
        raise BackendError(f"{machine.name} cannot remove what is not needed: {error.words}") from error


def may_go(kept: prune.KeptItem, bounds: PruneBounds) -> bool:
    """Whether something that was found goes now: what could not be sent only goes with its run, a working
    copy also by its age.
    """
    if kept.kind == prune.UNSENT:
        return goes(kept.about, bounds)
    if kept.kind == prune.WORKING_COPY:
        return goes(kept.about, bounds) or prune.is_old_copy(kept.at, bounds.unused_since)
    return True


def why_of(kept: prune.KeptItem, bounds: PruneBounds) -> str:
    """Why something goes, in words."""
    is_with_run = kept.kind == prune.WORKING_COPY and goes(kept.about, bounds)
    return WHY[prune.UNSENT if is_with_run else kept.kind]


def goes(run_id: str, bounds: PruneBounds) -> bool:
    """Whether a run goes as a whole, by itself or with its group."""
    return run_id in bounds.whole or split_row(run_id)[0] in bounds.whole
