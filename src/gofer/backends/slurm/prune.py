"""What a Slurm site keeps in its shared folder: handoff folders, and agents of other gofer versions."""

from __future__ import annotations

from collections.abc import Sequence

from gofer.backends.base import Prunable, PruneBounds, RunEnd
from gofer.backends.queue_prune import FIND_S, REMOVE_S, MachinePlace, explained, goes, may_go, why_of
from gofer.core import prune
from gofer.remote.slurm.handoff_prune import HANDOFF
from gofer.transport.machine import Machine

_WHOLE = "its run has ended"
_STUB = "its run has ended; a stub of a few bytes stays"


class SlurmPlace:
    """The shared folder of one site, reached through the login node."""

    def __init__(self, machine: Machine, folder: str) -> None:
        self._machine = machine
        self._folder = folder
        # A target of kind `ssh` may use the same folder, so its agents are listed here too.
        self._agents = MachinePlace(f"{machine.name}:{folder}", machine, queue_home=None, folder=folder)
        self.name = f"Slurm on {self._agents.name}"

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        with explained(self._machine):
            kept = self._machine.slurm(self._folder, wait_s=FIND_S).kept_items()
        ended = bounds.ended([entry.name for entry in kept if entry.kind == HANDOFF], True)
        found = [
            item for entry in kept if (item := self._item(entry, ended.get(entry.name), bounds)) is not None
        ]
        return [*found, *self._agents.prunable(bounds)]

    def _item(self, kept: prune.KeptItem, end: RunEnd | None, bounds: PruneBounds) -> Prunable | None:
        if kept.kind in (prune.UNSENT, prune.WORKING_COPY):
            why = why_of(kept, bounds)
            is_doomed = may_go(kept, bounds)
            return Prunable(self._agents.name, *kept[:4], why) if is_doomed else None
        if goes(kept.name, bounds):
            return Prunable(self._agents.name, HANDOFF, kept.name, kept.size, kept.at, "its run is removed")
        if end is None or end.at >= bounds.before or (kept.about == "stub" and not end.is_recorded):
            return None
        why = _WHOLE if end.is_recorded else _STUB
        return Prunable(self._agents.name, HANDOFF, kept.name, kept.size, end.at, why)

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        """Remove the handoff folders first: only afterwards is it known that no run needs an agent."""
        mine = [entry for entry in doomed if entry.kind in (HANDOFF, prune.UNSENT, prune.WORKING_COPY)]
        if mine:
            handoffs = [entry for entry in mine if entry.kind == HANDOFF]
            with explained(self._machine):
                self._machine.slurm(self._folder, wait_s=REMOVE_S).remove_items(
                    whole=[entry.name for entry in handoffs if entry.why != _STUB],
                    stubs=[entry.name for entry in handoffs if entry.why == _STUB],
                    unsent=[entry.name for entry in mine if entry.kind == prune.UNSENT],
                    copies=[entry.name for entry in mine if entry.kind == prune.WORKING_COPY],
                )
        others = [entry for entry in doomed if entry not in mine]
        return [*mine, *(self._agents.prune(others, bounds) if others else ())]
