"""Remove a cluster: only what gofer made, after a look at what runs there."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.backends.kubernetes.aks import forget_kubeconfig, kubeconfig_of
from gofer.backends.kubernetes.names import RUN_LABEL
from gofer.errors import CheckFailed, GoferError, UsageError
from gofer.ops.clusters.cluster_notes import ClusterNotes
from gofer.ops.clusters.cluster_place import environ_of, service_of, targets_of
from gofer.ops.clusters.cluster_plan import is_made
from gofer.ops.clusters.device_plugin import POOL_LABEL
from gofer.ops.clusters.long_operation import DEFAULT_LIMIT_S, LongOperations, OperationWait
from gofer.ops.messages import Message, Warning
from gofer.text import parse_time
from gofer.transport.azure.problems import RequestRejected, ResourceNotFound
from gofer.transport.kubernetes.client import KubeClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from gofer.ops.clusters.cluster_place import ClusterPlace
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow
    from gofer.transport.azure.arm import AcceptedChange
    from gofer.transport.azure.managed_cluster import ClusterService

_TRIES = 20
_BUSY = 409
# What a cluster runs for itself.
_SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "gatekeeper-system")


class RunningWork(NamedTuple):
    """Something that runs on the cluster: a run of this person, or a pod of anybody."""

    kind: str
    name: str
    age_s: float


class ClusterRemoval(NamedTuple):
    """What `delete_cluster` would remove, and the work that would be lost. Nothing when all of it is gone."""

    cluster: bool
    pool: str
    group: bool
    work: tuple[RunningWork, ...]
    unknown: str

    @property
    def is_nothing(self) -> bool:
        return not (self.cluster or self.pool or self.group)


def plan_removal(session: Session, place: ClusterPlace) -> ClusterRemoval:
    """Look at what is there. Changes nothing. CheckFailed for a cluster of which gofer made nothing.

    A cluster that gofer did not make stays, and the pool that gofer made in it goes. The resource group goes
    when gofer made it and nothing else is in it. `unknown` says why the work could not be listed.
    """
    service = service_of(session, place)
    found = service.find(place.cluster)
    group = service.find_group(place.cluster)
    others = _others(service, place) if group else []
    takes_group = group is not None and is_made(group) and not others
    if found is None:
        return ClusterRemoval(False, "", takes_group, (), "")
    pool = ""
    if not is_made(found):
        made = service.find_pool(place.cluster, place.pool)
        if made is None or not is_made(made):
            raise CheckFailed(
                f"gofer did not make the cluster `{place.cluster.name}`, so gofer does not remove it",
                hint=f"`az aks delete --name {place.cluster.name} --resource-group {place.cluster.group}`",
            )
        pool, takes_group = place.pool, False
    runs = _active_runs(session, place)
    pods, unknown = _pods(session, place, {row.group_id or row.id for row in runs})
    work = (*(_run(row) for row in runs), *pods)
    return ClusterRemoval(not pool, pool, takes_group, work, unknown)


def delete_cluster(
    session: Session, place: ClusterPlace, removal: ClusterRemoval, *, wait_s: float = DEFAULT_LIMIT_S
) -> None:
    """Remove what the plan says, and wait for it. Idempotent: what is gone already is no error. Blocking."""
    service = service_of(session, place)
    notes = ClusterNotes(session.paths.queue_home)
    operations = LongOperations(service, notes, place.cluster, OperationWait(wait_s, session.emit))
    steps = _Removal(session, service, operations)
    cluster = place.cluster
    if removal.pool:
        steps.run(
            "remove the node pool",
            cluster.pool_id(removal.pool),
            lambda: service.delete_pool(cluster, removal.pool),
        )
    if removal.cluster:
        steps.run("remove the cluster", cluster.id, lambda: service.delete(cluster))
    if removal.group:
        steps.run("remove the resource group", cluster.group_id, lambda: service.delete_group(cluster))
    forget_kubeconfig(cluster, str(session.paths.queue_home))
    notes.forget(cluster)


class _Removal:
    """The steps, each waited for."""

    def __init__(self, session: Session, service: ClusterService, operations: LongOperations) -> None:
        self._session = session
        self._service = service
        self._operations = operations

    def run(self, what: str, resource: str, change: Callable[[], AcceptedChange]) -> None:
        self._session.emit(Message(f"{what} `{resource.rsplit('/', 1)[-1]}`; this takes some minutes"))
        for _ in range(_TRIES):
            try:
                operation = self._operations.begin(what, resource, change)
            except ResourceNotFound:
                return
            except RequestRejected as error:
                if error.status != _BUSY:
                    raise
                self._operations.wait_until_idle()
            else:
                if operation.url:
                    self._operations.wait(operation)
                return


def _others(service: ClusterService, place: ClusterPlace) -> list[dict[str, Any]]:
    """What is in the resource group and is not this cluster."""
    own = place.cluster.id.lower()
    try:
        found = service.group_resources(place.cluster)
    except ResourceNotFound:
        return []
    return [one for one in found if str(one.get("id") or "").lower() != own]


def _active_runs(session: Session, place: ClusterPlace) -> list[RunRow]:
    """The runs of this person on the cluster that have not ended, as far as the ledger knows its targets."""
    targets = targets_of(session, place.cluster)
    return [row for target in targets for row in session.ledger.active(target)]


def _run(row: RunRow) -> RunningWork:
    return RunningWork("run", f"{row.short_id} ({row.name})", time.time() - row.submitted_at)


def _pods(session: Session, place: ClusterPlace, own: Collection[str]) -> tuple[tuple[RunningWork, ...], str]:
    """The pods of all but the cluster and the runs `own`; a reason when the cluster does not answer."""
    environ, queue_home = environ_of(session, place), str(session.paths.queue_home)
    try:
        client = KubeClient(kubeconfig_of(place.cluster, environ, queue_home))
        try:
            listed = list(client.list_all("/api/v1/pods", fields="status.phase=Running"))
        finally:
            client.close()
    except GoferError as error:
        session.emit(Warning(f"what runs on `{place.cluster.name}` could not be listed: {error.message}"))
        return (), error.message
    pods = (one.get("metadata") or {} for one in listed)
    return tuple(_pod(one) for one in pods if _is_work(one, own)), ""


def _is_work(metadata: Mapping[str, Any], own: Collection[str]) -> bool:
    """Whether somebody would miss the pod: it is not of the cluster itself, of a pool, or of an own run."""
    labels = metadata.get("labels") or {}
    if metadata.get("namespace") in _SYSTEM_NAMESPACES or POOL_LABEL in labels:
        return False
    return labels.get(RUN_LABEL) not in own


def _pod(metadata: Mapping[str, Any]) -> RunningWork:
    try:
        age_s = time.time() - parse_time(str(metadata.get("creationTimestamp")))
    except UsageError:
        age_s = 0.0
    return RunningWork("pod", f"{metadata.get('namespace')}/{metadata.get('name')}", age_s)
