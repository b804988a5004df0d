"""`petctl setup`, `scale` and `delete_resources`: the cluster of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.config.yaml.text import Entry
from gofer.errors import UsageError
from gofer.importers.petctl import DEFAULT_MASTER_VM, DEFAULT_WORKER_VM, PetCluster
from gofer.ops.clusters.cluster_place import ClusterPlace, service_of
from gofer.ops.clusters.cluster_plan import DEFAULT_POOL, PoolSize
from gofer.ops.clusters.core_quota import CoreQuota
from gofer.ops.clusters.create import CreateRequest, create_cluster
from gofer.ops.clusters.delete import ClusterRemoval, delete_cluster, plan_removal
from gofer.ops.clusters.scale import scale_cluster
from gofer.ops.messages import Message, Warning
from gofer.ops.petctl.project import TARGET, PetProject
from gofer.text import slug
from gofer.transport.azure.cloud import find_cloud
from gofer.transport.azure.managed_cluster import ClusterName
from gofer.transport.azure.tenant import tenant_of

if TYPE_CHECKING:
    from gofer.ops.clusters.show import ClusterView

# Azure withdrew these sizes, which the older tool takes unless a person names others.
_RETIRED = {DEFAULT_MASTER_VM: 0, DEFAULT_WORKER_VM: 1}


class PetLogin(NamedTuple):
    """A service principal. The cluster itself gets an identity of its own."""

    client_id: str
    client_secret: str


class SetupRequest(NamedTuple):
    """Where the cluster is made."""

    dns_prefix: str
    group: str
    location: str
    subscription: str
    login: PetLogin


def setup(project: PetProject, request: SetupRequest) -> ClusterView:
    """Make the cluster with its workers, and a target for it. Idempotent. Blocks for minutes."""
    pools = project.files.pools()
    name = slug(request.dns_prefix) or TARGET
    cluster = ClusterName(request.subscription, request.group, name)
    place = ClusterPlace(cluster, DEFAULT_POOL, None, None)
    _use_login(project, request.subscription, request.login)
    quota = CoreQuota.read(service_of(project.session, place), request.subscription, request.location)
    worker = _offered(project, quota, pools.worker_vm)
    wanted = CreateRequest(
        place,
        request.location,
        vm_size=worker,
        size=PoolSize(pools.workers, pools.workers),
        system_vm_size=_offered(project, quota, pools.master_vm),
        dns_prefix=name,
    )
    tenant = project.session.environ["AZURE_TENANT_ID"]
    gpus = max(1, quota.size(worker).gpus)
    known = PetCluster(*cluster, DEFAULT_POOL, gpus, request.login.client_id, tenant)
    # Before the cluster: `delete_resources` must find what a killed `setup` left.
    project.remember(cluster=known)
    made = create_cluster(project.session, wanted)
    write_target(project)
    return made


def scale(project: PetProject, place: ClusterPlace, login: PetLogin, count: int) -> ClusterView:
    """Give the pool of workers this number of nodes. Idempotent. Blocks for minutes."""
    _use_login(project, place.cluster.subscription, login)
    return scale_cluster(project.session, place, PoolSize(count, count))


def plan_delete(project: PetProject) -> tuple[ClusterPlace, ClusterRemoval] | None:
    """What `delete_resources` would remove; None when `setup` made nothing, or all of it was removed."""
    if project.files.state().cluster is None:
        return None
    place = place_of(project)
    return place, plan_removal(project.session, place)


def delete(project: PetProject, place: ClusterPlace, removal: ClusterRemoval) -> None:
    """Remove it, and the secrets of the project on this machine. Data in the storage account stays."""
    delete_cluster(project.session, place, removal)
    project.remember(cluster=None, pull_secret="")
    project.forget_secrets()


def place_of(project: PetProject) -> ClusterPlace:
    """The cluster that `setup` made; UsageError when there is none."""
    known = project.files.state().cluster
    if known is None:
        raise UsageError("there is no cluster yet", hint="`python petctl.py setup …` makes it")
    cluster = ClusterName(known.subscription_id, known.resource_group, known.cluster)
    return ClusterPlace(cluster, known.pool, None, None)


def write_target(project: PetProject) -> None:
    """Write the target of the project, once `setup` and `storage_secret` have been typed."""
    state = project.files.state()
    if state.cluster is None or not state.account:
        return
    keys = ("subscription_id", "resource_group", "cluster", "pool")
    entry: Entry = {
        "kind": "kubernetes",
        "aks": {key: getattr(state.cluster, key) for key in keys},
        "gpus_per_node": state.cluster.gpus,
        "store": TARGET,
        "image": image_of(project),
    }
    entry |= {"pull_secret": state.pull_secret} if state.pull_secret else {}
    project.write_setting(["targets", TARGET], entry)


def image_of(project: PetProject) -> str:
    """The image of the job, else the one that `config/Dockerfile` begins with; UsageError without both."""
    found = project.files.job().image or project.files.dockerfile_image()
    if not found:
        raise UsageError(
            "no image is known for the job",
            hint="`python petctl.py docker_secret … --image_name IMAGE`, or write `config/Dockerfile`",
        )
    return found


def _offered(project: PetProject, quota: CoreQuota, name: str) -> str:
    """The size, or for a withdrawn default the smallest that is offered with as many GPUs."""
    found = quota.sizes.get(name.lower())
    if name not in _RETIRED or (found is not None and not found.refusal and found.cores > 1):
        return quota.size(name).name
    offered = quota.alternatives(_RETIRED[name])
    if not offered:
        return quota.size(name).name
    option = "--master_vm" if name == DEFAULT_MASTER_VM else "--worker_vm"
    project.session.emit(
        Warning(
            f"Azure has withdrawn `{name}`; `{offered[0].name}` is taken in its place "
            f"(`configure {option}` chooses another)"
        )
    )
    return offered[0].name


def _use_login(project: PetProject, subscription: str, login: PetLogin) -> None:
    folder = str(project.session.paths.queue_home / "azure")
    cloud = find_cloud(project.session.environ, folder)
    project.keep_secret("client-secret", login.client_secret)
    project.use_login(login.client_id, login.client_secret, tenant_of(cloud, subscription))
    known = project.files.state().cluster
    if known is not None:
        project.remember(cluster=msgspec.structs.replace(known, client_id=login.client_id))
    project.session.emit(Message(f"signed in as the service principal {login.client_id}"))
