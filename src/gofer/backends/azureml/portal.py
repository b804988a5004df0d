"""The addresses of the service's web pages. Pure."""

from __future__ import annotations

from urllib.parse import quote

from gofer.backends.azureml.names import Workspace
from gofer.backends.azureml.options import AzureOptions
from gofer.transport.azure.cloud import Cloud


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
