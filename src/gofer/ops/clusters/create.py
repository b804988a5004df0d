"""Make a cluster: resource group, cluster with both pools, the program for its GPUs.

Each step looks first at what is there. So the same command continues where a killed one ended, and makes
nothing twice.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends.kubernetes.aks import forget_kubeconfig, kubeconfig_of
from gofer.errors import CheckFailed, GoferError
from gofer.ops.clusters.cluster_notes import ClusterNote, ClusterNotes
from gofer.ops.clusters.cluster_place import ClusterPlace, environ_of, service_of
from gofer.ops.clusters.cluster_plan import (
    MADE_TAG,
    ClusterPlan,
    Json,
    PoolPlan,
    PoolSize,
    check_pool,
    cluster_body,
    is_made,
    pool_properties,
)
from gofer.ops.clusters.core_quota import CoreQuota, NodeDemand
from gofer.ops.clusters.device_plugin import install_device_plugin
from gofer.ops.clusters.long_operation import (
    DEFAULT_LIMIT_S,
    ENDS,
    LongOperations,
    OperationWait,
    provisioning_state,
)
from gofer.ops.clusters.show import ClusterView, view
from gofer.ops.messages import Hint, Message, Warning
from gofer.transport.azure.problems import RequestRejected
from gofer.transport.kubernetes.client import KubeClient

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.transport.azure.managed_cluster import ClusterService

DEFAULT_VM_SIZE = "Standard_NC4as_T4_v3"
DEFAULT_SYSTEM_VM_SIZE = "Standard_D2s_v5"
# How the service refuses what it is doing already: in progress, and there already.
_TAKEN = (409, 412)


class CreateRequest(NamedTuple):
    """What a person asks for. `wait_s` 0 returns as soon as Azure has accepted the cluster."""

    place: ClusterPlace
    location: str
    vm_size: str = DEFAULT_VM_SIZE
    size: PoolSize = PoolSize(1, 1)
    system_vm_size: str = DEFAULT_SYSTEM_VM_SIZE
    is_spot: bool = False
    taints: tuple[str, ...] = ()
    dns_prefix: str = ""
    kubernetes_version: str = ""
    wait_s: float = DEFAULT_LIMIT_S


def create_cluster(session: Session, request: CreateRequest) -> ClusterView:
    """Make the cluster and its pool, and wait for both. Idempotent by the name of the cluster. Blocking.

    CheckFailed, before anything is made, when quota or sizes do not allow it, and for a cluster that gofer
    did not make. Interrupted when the time is up: the operation continues.
    """
    return _Creation(session, request).run()


class _Creation:
    """One command. Its steps may each be done already."""

    def __init__(self, session: Session, request: CreateRequest) -> None:
        self._session = session
        self._request = request
        self._place = request.place
        self._cluster = request.place.cluster
        self._service: ClusterService = service_of(session, request.place)
        self._notes = ClusterNotes(session.paths.queue_home)
        self._operations = LongOperations(
            self._service, self._notes, self._cluster, OperationWait(request.wait_s, session.emit)
        )

    def run(self) -> ClusterView:
        check_pool(self._pool_plan(0))
        found = self._service.find(self._cluster)
        if found is not None and not is_made(found):
            raise CheckFailed(
                f"the cluster `{self._cluster.name}` exists, and gofer did not make it",
                hint="choose another name; a target with `aks:` uses the cluster as it is",
            )
        if found is None or provisioning_state(found) in ("Failed", "Canceled"):
            self._make(found)
        elif provisioning_state(found) not in ENDS:
            self._session.emit(Message(f"the cluster `{self._cluster.name}` is being made already"))
        else:
            self._session.emit(Message(f"the cluster `{self._cluster.name}` is there already"))
        if self._request.wait_s:
            self._complete()
        return view(self._session, self._place, self._service)

    def _make(self, found: Json | None) -> None:
        plan = self._checked_plan()
        note = ClusterNote(*self._cluster, plan.pool.name, self._place.profile, plan.pool.gpus)
        self._notes.keep(note)
        self._make_group(plan)
        # A cluster of that name that was removed had other certificates.
        forget_kubeconfig(self._cluster, str(self._session.paths.queue_home))
        name = self._cluster.name
        self._session.emit(
            Message(
                f"making the cluster `{name}` in `{plan.location}`: {plan.pool.size} of {plan.pool.vm_size} "
                f"in the pool `{plan.pool.name}`; this takes some minutes"
            )
        )
        body = cluster_body(plan)
        etag = str(found.get("eTag")) if found else ""
        try:
            self._operations.begin(
                "make the cluster", self._cluster.id, lambda: self._service.create(self._cluster, body, etag)
            )
        except RequestRejected as error:
            # The answer to an earlier request was lost, or another client makes the same cluster.
            if error.status not in _TAKEN or self._service.find(self._cluster) is None:
                raise

    def _complete(self) -> None:
        self._follow()
        self._add_pool()
        note = self._notes.find(self._cluster)
        if note is not None and note.gpus:
            self._install_plugin(note)

    def _follow(self) -> None:
        self._operations.wait_for_pending()
        self._operations.wait_until_idle()

    def _add_pool(self) -> None:
        """The pool of this command, when the cluster was made for another one."""
        if self._service.find_pool(self._cluster, self._place.pool) is not None:
            return
        plan = self._checked_plan().pool
        properties = pool_properties(plan, os.path.basename(self._session.project))
        self._notes.keep(ClusterNote(*self._cluster, plan.name, self._place.profile, plan.gpus))
        try:
            self._operations.begin(
                "make the node pool",
                self._cluster.pool_id(plan.name),
                lambda: self._service.create_pool(self._cluster, plan.name, properties),
            )
        except RequestRejected as error:
            # As for the cluster: the pool may be on its way already.
            if error.status not in _TAKEN or self._service.find_pool(self._cluster, plan.name) is None:
                raise
        self._follow()

    def _install_plugin(self, note: ClusterNote) -> None:
        environ, queue_home = environ_of(self._session, self._place), str(self._session.paths.queue_home)
        try:
            client = KubeClient(kubeconfig_of(self._cluster, environ, queue_home))
            try:
                install_device_plugin(client, note.pool)
            finally:
                client.close()
        except GoferError as error:
            # The cluster is complete but for this: repeating the command tries it again.
            self._session.emit(Warning(f"NVIDIA's device plugin was not installed: {error.message}"))
            self._session.emit(
                Hint("pods get no GPUs without it; repeat the command, or install it yourself")
            )

    def _make_group(self, plan: ClusterPlan) -> None:
        group = self._service.find_group(self._cluster)
        if group is None:
            self._service.create_group(self._cluster, plan.location, {MADE_TAG: plan.made_for})
            self._session.emit(Message(f"made the resource group `{self._cluster.group}`"))

    def _checked_plan(self) -> ClusterPlan:
        """The plan, after a look at quota and sizes."""
        request = self._request
        quota = CoreQuota.read(self._service, self._cluster.subscription, request.location)
        demands = [
            NodeDemand(request.system_vm_size, 1, 1),
            NodeDemand(request.vm_size, request.size.least, request.size.most, request.is_spot),
        ]
        quota.check(demands, self._session.emit)
        return ClusterPlan(
            location=request.location,
            dns_prefix=request.dns_prefix or self._cluster.name,
            system_vm_size=request.system_vm_size,
            pool=self._pool_plan(quota.size(request.vm_size).gpus),
            made_for=os.path.basename(self._session.project),
            kubernetes_version=request.kubernetes_version,
        )

    def _pool_plan(self, gpus: int) -> PoolPlan:
        request = self._request
        pool = self._place.pool
        return PoolPlan(pool, request.vm_size, request.size, gpus, request.is_spot, request.taints)
