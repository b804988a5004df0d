"""Show a cluster and its pools, and follow what Azure still works on, whichever process began it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.errors import UnknownName
from gofer.ops.clusters.cluster_notes import ClusterNotes
from gofer.ops.clusters.cluster_place import service_of
from gofer.ops.clusters.cluster_plan import is_made
from gofer.ops.clusters.long_operation import ENDS, LongOperations, OperationWait, provisioning_state

if TYPE_CHECKING:
    from gofer.ops.clusters.cluster_place import ClusterPlace
    from gofer.ops.session import Session
    from gofer.transport.azure.managed_cluster import ClusterService


class PoolView(NamedTuple):
    """A node pool. `least` and `most` are the bounds of its autoscaler; None without one."""

    name: str
    mode: str
    vm_size: str
    nodes: int
    least: int | None
    most: int | None
    is_spot: bool
    state: str


class OperationView(NamedTuple):
    """A change that Azure works on, begun from this machine."""

    what: str
    resource: str
    since: float
    state: str


class ClusterView(NamedTuple):
    """A cluster as the service describes it, and what is in progress."""

    name: str
    group: str
    subscription: str
    location: str
    state: str
    version: str
    power: str
    is_made: bool
    pools: tuple[PoolView, ...]
    operations: tuple[OperationView, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data for programs."""
        return {
            **self._asdict(),
            "pools": [pool._asdict() for pool in self.pools],
            "operations": [operation._asdict() for operation in self.operations],
        }


def show_cluster(session: Session, place: ClusterPlace, *, wait_s: float = 0.0) -> ClusterView:
    """The cluster now, or with `wait_s` when all that was begun has ended. Blocking.

    Operations that have ended are forgotten. UnknownName without such a cluster, BackendError when one of the
    operations has failed, Interrupted when the time is up.
    """
    service = service_of(session, place)
    notes = ClusterNotes(session.paths.queue_home)
    if wait_s:
        operations = LongOperations(service, notes, place.cluster, OperationWait(wait_s, session.emit))
        operations.wait_for_pending()
        operations.wait_until_idle()
    return view(session, place, service)


def view(session: Session, place: ClusterPlace, service: ClusterService) -> ClusterView:
    """Ask the service once for the cluster, and once for each operation that is remembered."""
    pending = _pending(session, place, service)
    found = service.find(place.cluster)
    if found is None:
        if not pending:
            ClusterNotes(session.paths.queue_home).forget(place.cluster)
        raise UnknownName(
            f"there is no cluster `{place.cluster.name}` in the resource group `{place.cluster.group}`",
            hint=f"`gofer cluster create {place.cluster.name} …` makes it",
        )
    properties = found.get("properties") or {}
    pools = tuple(_pool_view(one) for one in properties.get("agentPoolProfiles") or ())
    return ClusterView(
        name=place.cluster.name,
        group=place.cluster.group,
        subscription=place.cluster.subscription,
        location=str(found.get("location") or ""),
        state=provisioning_state(found),
        version=str(properties.get("currentKubernetesVersion") or properties.get("kubernetesVersion") or ""),
        power=str((properties.get("powerState") or {}).get("code") or ""),
        is_made=is_made(found),
        pools=pools,
        operations=pending,
    )


def _pending(session: Session, place: ClusterPlace, service: ClusterService) -> tuple[OperationView, ...]:
    notes = ClusterNotes(session.paths.queue_home)
    operations = LongOperations(service, notes, place.cluster, OperationWait())
    note = notes.find(place.cluster)
    found = []
    for one in note.operations if note else ():
        state = operations.state(one).status
        if state in ENDS:
            notes.end(place.cluster, one)
        if state != "Succeeded":
            found.append(OperationView(one.what, one.resource.rsplit("/", 1)[-1], one.since, state))
    return tuple(found)


def _pool_view(profile: Mapping[str, Any]) -> PoolView:
    automatic = bool(profile.get("enableAutoScaling"))
    return PoolView(
        name=str(profile.get("name")),
        mode=str(profile.get("mode") or ""),
        vm_size=str(profile.get("vmSize") or ""),
        nodes=int(profile.get("count") or 0),
        least=profile.get("minCount") if automatic else None,
        most=profile.get("maxCount") if automatic else None,
        is_spot=profile.get("scaleSetPriority") == "Spot",
        state=str(profile.get("provisioningState") or ""),
    )


def elapsed_s(operation: OperationView) -> float:
    """How long Azure has worked on it."""
    return max(0.0, time.time() - operation.since)
