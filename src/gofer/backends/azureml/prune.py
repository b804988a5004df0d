"""What runs on Azure ML leave in their store: handoff folders, agents of other gofer versions, packages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gofer.backends.azureml import names
from gofer.backends.azureml.handoff import REQUEST
from gofer.backends.base import KeptObjects, Prunable, PruneBounds
from gofer.backends.queue_prune import goes
from gofer.core.json_text import parse_json
from gofer.core.parallel import parallel_map
from gofer.core.prune import PACKAGES
from gofer.errors import GoferError
from gofer.node.packages import archive
from gofer.objects.facts import ObjectInfo
from gofer.transport.bundle import mark

HANDOFF = "room"
AGENT = "agent"
_AGENTS = "agents"
_HANDOFFS = "rooms"


class _Handoff(NamedTuple):
    size: int
    at: float


class AzurePlace:
    """The store of a target: the objects that gofer put there for the service and its nodes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        handoffs = _handoffs(bounds.store)
        ended = bounds.ended(list(handoffs), False)
        old = {item: end.at for item, end in ended.items() if end.at < bounds.before}
        old.update({item: handoffs[item].at for item in handoffs if goes(item, bounds)})
        found = [
            Prunable(self.name, HANDOFF, item, handoffs[item].size, at, "its run has ended")
            for item, at in sorted(old.items())
        ]
        living = {item: handoff for item, handoff in handoffs.items() if item not in ended}
        why = "of another version of gofer and not needed by any run; gofer sends it again when needed"
        found += [
            Prunable(self.name, AGENT, _mark(item), item.size, item.modified, why)
            for item in _unneeded(bounds, living)
        ]
        return found + _unused_packages(self.name, bounds)

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        gone = [item for item in doomed if item.kind == HANDOFF]
        for handoff in gone:
            for key in (names.handoff_key(handoff.name), names.messages_key(handoff.name)):
                bounds.store.delete([info.key for info in bounds.store.list(key)])
        agents = {item.name: item for item in doomed if item.kind == AGENT}
        if agents:
            # Runs may have been submitted since these were found.
            free = {item.name for item in self.prunable(bounds) if item.kind == AGENT}
            marks = [mark for mark in agents if mark in free]
            bounds.store.delete([names.agent_key(mark) for mark in marks])
            gone += [agents[mark] for mark in marks]
        return gone + self._prune_packages([item for item in doomed if item.kind == PACKAGES], bounds)

    def _prune_packages(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        """Remove the packages that no run has used since they were found; return those removed."""
        free = {item.name for item in _unused_packages(self.name, bounds)} if doomed else set()
        gone = [item for item in doomed if item.name in free]
        for item in gone:
            bounds.store.delete([archive.key_of(item.name), archive.used_key_of(item.name)])
        return gone


def _handoffs(store: KeptObjects) -> dict[str, _Handoff]:
    found: dict[str, _Handoff] = {}
    for info in store.list(_HANDOFFS):
        _, _, rest = info.key.partition("/")
        name = rest.partition("/")[0]
        before = found.get(name, _Handoff(0, 0.0))
        found[name] = _Handoff(before.size + info.size, max(before.at, info.modified))
    return found


def _unused_packages(place: str, bounds: PruneBounds) -> list[Prunable]:
    """Built packages that no run has used for long. Packages that were just uploaded count as used."""
    found: dict[str, tuple[int, float]] = {}
    for info in bounds.store.list(archive.PREFIX):
        name = info.key.rpartition("/")[2].partition(".")[0]
        size, at = found.get(name, (0, 0.0))
        found[name] = (size + info.size, max(at, info.modified))
    why = "no run has used these packages since; a run that needs them builds them"
    return [
        Prunable(place, PACKAGES, name, size, at, why)
        for name, (size, at) in sorted(found.items())
        if at < bounds.unused_since
    ]


def _mark(info: ObjectInfo) -> str:
    return info.key.rpartition("/")[2].removesuffix(".zip")


def _unneeded(bounds: PruneBounds, living: dict[str, _Handoff]) -> list[ObjectInfo]:
    """Agents that no submission has used for long and that no unfinished run names.

    A run of an older gofer does not name its agent. Such a run may use any agent that was stored before the
    run.
    """
    old = [
        info
        for info in bounds.store.list(_AGENTS)
        if _mark(info) != mark() and info.modified < bounds.unused_since
    ]
    if not old:
        return []
    named, since = _needs(bounds.store, living)
    return [info for info in old if _mark(info) not in named and info.modified > since]


def _needs(store: KeptObjects, living: dict[str, _Handoff]) -> tuple[set[str], float]:
    """The agents that the requests name, and the time of the last request that names none."""
    named: set[str] = set()
    since = 0.0
    for item, agent in zip(living, _agents_of(store, living), strict=True):
        if agent is None:
            since = max(since, living[item].at)
        else:
            named.add(agent)
    return named, since


def _agents_of(store: KeptObjects, handoffs: Iterable[str]) -> list[str | None]:
    def read(handoff: str) -> str | None:
        try:
            found = parse_json(store.get(names.handoff_key(handoff, REQUEST)))
        except (GoferError, ValueError):
            return None  # unreadable: the run may need any agent
        agent = found.get("agent") if isinstance(found, dict) else None
        return agent if isinstance(agent, str) else None

    return parallel_map(read, handoffs, at_once=8)
