"""Change the number of nodes of a pool, exactly once: under the version of the pool that was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.errors import BackendError, UnknownName
from gofer.ops.clusters.cluster_notes import ClusterNotes
from gofer.ops.clusters.cluster_place import service_of
from gofer.ops.clusters.cluster_plan import Json, PoolSize, resized
from gofer.ops.clusters.core_quota import CoreQuota, NodeDemand
from gofer.ops.clusters.long_operation import DEFAULT_LIMIT_S, LongOperations, OperationWait
from gofer.ops.clusters.show import ClusterView, view
from gofer.ops.messages import Message
from gofer.text import count_nodes, did_you_mean
from gofer.transport.azure.problems import RequestRejected

if TYPE_CHECKING:
    from gofer.ops.clusters.cluster_place import ClusterPlace
    from gofer.ops.session import Session
    from gofer.transport.azure.managed_cluster import ClusterService

_TRIES = 20
_BUSY = 409
_CHANGED = 412


def scale_cluster(
    session: Session, place: ClusterPlace, size: PoolSize, *, wait_s: float = DEFAULT_LIMIT_S
) -> ClusterView:
    """Give the pool this number of nodes, or these bounds of an autoscaler, and wait for it. Idempotent.

    A change of somebody else is waited for, and this one is applied on top of it. CheckFailed when the quota
    does not allow it; `wait_s` 0 returns as soon as Azure has accepted the change.
    """
    service = service_of(session, place)
    notes = ClusterNotes(session.paths.queue_home)
    operations = LongOperations(
        service, notes, place.cluster, OperationWait(wait_s or DEFAULT_LIMIT_S, session.emit)
    )
    operations.wait_for_pending()
    _Scaling(session, place, service, operations).change(size)
    if wait_s:
        operations.wait_for_pending()
        operations.wait_until_idle()
    return view(session, place, service)


class _Scaling:
    """One change. It is tried again as long as others change the pool."""

    def __init__(
        self, session: Session, place: ClusterPlace, service: ClusterService, operations: LongOperations
    ) -> None:
        self._session = session
        self._place = place
        self._service = service
        self._operations = operations

    def change(self, size: PoolSize) -> None:
        """Send the change, unless the pool has this size already."""
        for _ in range(_TRIES):
            pool = self._pool()
            properties = pool.get("properties") or {}
            wanted = resized(properties, size)
            if wanted is None:
                self._session.emit(Message(f"the pool `{self._place.pool}` has {_shown(size)}"))
                return
            self._check_quota(properties, size)
            try:
                self._send(wanted, str(properties.get("eTag") or ""), size)
                return
            except RequestRejected as error:
                if error.status == _BUSY:
                    self._operations.wait_until_idle()
                elif error.status != _CHANGED:
                    raise
        raise BackendError(
            f"the pool `{self._place.pool}` is changed by others all the time",
            hint=f"`gofer cluster show {self._place.cluster.name}` shows its state; try again later",
        )

    def _send(self, properties: Json, etag: str, size: PoolSize) -> None:
        cluster, pool = self._place.cluster, self._place.pool
        self._operations.begin(
            "scale the pool",
            cluster.pool_id(pool),
            lambda: self._service.change_pool(cluster, pool, properties, etag),
        )
        self._session.emit(Message(f"the pool `{pool}` of `{cluster.name}` gets {_shown(size)}"))

    def _pool(self) -> Json:
        found = self._service.find_pool(self._place.cluster, self._place.pool)
        if found is not None:
            return found
        cluster = view(self._session, self._place, self._service)
        names = [pool.name for pool in cluster.pools]
        raise UnknownName(
            f"the cluster `{cluster.name}` has no pool `{self._place.pool}`",
            hint=did_you_mean(self._place.pool, names) or f"its pools are {', '.join(names)}; see `--pool`",
        )

    def _check_quota(self, properties: Json, size: PoolSize) -> None:
        have = int(properties.get("count") or 0)
        if size.most <= have:
            return
        found = self._service.find(self._place.cluster) or {}
        subscription, location = self._place.cluster.subscription, str(found.get("location"))
        quota = CoreQuota.read(self._service, subscription, location)
        vm_size, is_spot = str(properties.get("vmSize")), properties.get("scaleSetPriority") == "Spot"
        more = NodeDemand(vm_size, max(0, size.least - have), size.most - have, is_spot)
        quota.check([more], self._session.emit)


def _shown(size: PoolSize) -> str:
    if size.is_automatic:
        return f"{size.least} to {count_nodes(size.most)}"
    return count_nodes(size.least)
