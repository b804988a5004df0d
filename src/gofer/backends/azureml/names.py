"""The names of things: ARM ids, datastores, keys in the store, and addresses of web pages. Pure."""

from __future__ import annotations

import hashlib
from typing import NamedTuple
from urllib.parse import quote

from gofer.backends.azureml.options import AzureOptions
from gofer.backends.base import RunRef
from gofer.backends.kind import BlobPlace
from gofer.text import slug
from gofer.transport.azure.cloud import Cloud

JOBS_API = "2025-01-01-preview"
ENVIRONMENTS_API = "2023-04-01-preview"
DATASTORES_API = "2024-10-01-preview"
COMPUTES_API = "2023-08-01-preview"
WORKSPACES_API = "2024-10-01-preview"
VIRTUAL_CLUSTERS_API = "2021-03-01-preview"
# What the names of the environments that gofer makes of images begin with.
OWN_ENVIRONMENT = "gofer-"
_PROVIDER = "providers/Microsoft.MachineLearningServices"


class Workspace(NamedTuple):
    """A workspace, identified by three names."""

    subscription: str
    group: str
    name: str

    @property
    def beside(self) -> str:
        """The prefix of the ids of other resources in the same resource group."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.group}/{_PROVIDER}"

    @property
    def id(self) -> str:
        return f"{self.beside}/workspaces/{self.name}"

    def job(self, name: str) -> str:
        return f"{self.id}/jobs/{name}"

    def compute(self, name: str) -> str:
        return f"{self.id}/computes/{name}"

    def virtual_cluster(self, name: str) -> str:
        """The id of a virtual cluster; `name` may also be a complete id."""
        return name if name.startswith("/") else f"{self.beside}/virtualClusters/{name}"


def job_names(run: RunRef) -> list[str]:
    """The names of a run's jobs on the service: one, or one for each row of an array."""
    return [f"{run.id}-{row}" for row in range(run.size)] or [run.id]


def agent_key(mark: str) -> str:
    return f"agents/{mark}.zip"


def handoff_key(request_id: str, name: str = "") -> str:
    return f"rooms/{request_id}/{name}" if name else f"rooms/{request_id}"


def messages_key(request_id: str) -> str:
    """The prefix of the objects by which the nodes of a request find each other."""
    return f"told/{request_id}"


def datastore_name(place: BlobPlace, *, write: bool = True, by_identity: bool = False) -> str:
    """The name of the datastore for a container, or for a folder of it that is opened separately.

    Each way of access has its own datastore: what one job only reads, or opens by its identity, another job
    may have to write by a signature.
    """
    way = "identity" if by_identity else f"{'w' if write else 'r'} {place.terms}"
    # NUL separates the parts, because none of them can contain it.
    text = "\0".join([place.endpoint.rstrip("/"), place.container, place.scope, way])
    return f"gofer_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def uri(datastore: str, prefix: str, key: str) -> str:
    """The address by which a job names a path in a datastore."""
    return f"azureml://datastores/{datastore}/paths/{'/'.join(part for part in (prefix, key) if part)}"


def environment_of_image(image: str) -> tuple[str, str]:
    """Name and version of the environment that gofer makes for an image: equal for equal images."""
    name = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    return f"{OWN_ENVIRONMENT}{slug(name) or 'image'}", hashlib.sha256(image.encode()).hexdigest()[:16]


def run_page(cloud: Cloud, workspace: Workspace, run_id: str, tenant: str | None = None) -> str:
    return f"{cloud.studio}/runs/{quote(run_id)}?{_where(workspace, tenant)}"


def target_page(cloud: Cloud, workspace: Workspace, options: AzureOptions, tenant: str | None = None) -> str:
    """The page of the compute; for a virtual cluster, the page of the workspace's jobs."""
    where = _where(workspace, tenant)
    if options.platform == "singularity" or not options.compute:
        return f"{cloud.studio}/experiments?{where}"
    return f"{cloud.studio}/compute/{quote(options.compute)}/details?{where}"


def _where(workspace: Workspace, tenant: str | None) -> str:
    return f"wsid={workspace.id}" + (f"&tid={tenant}" if tenant else "")
