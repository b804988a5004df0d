"""What the parts of the backend of one target share: the cluster, the namespace, notes on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.backends.kubernetes.aks import kubeconfig_of
from gofer.backends.kubernetes.options import KubernetesOptions
from gofer.backends.polling import Polling
from gofer.backends.run_notes import KnownResources, RunNotes
from gofer.transport.azure.managed_cluster import ClusterName
from gofer.transport.kubernetes.client import KubeClient
from gofer.transport.kubernetes.kubeconfig import load

if TYPE_CHECKING:
    from gofer.backends.kind import BackendContext
    from gofer.transport.kubernetes.kubeconfig import KubeContext


def find_cluster(
    options: KubernetesOptions,
    login_environ: Callable[[], Mapping[str, str]],
    queue_home: str,
    environ: Mapping[str, str] = os.environ,
) -> KubeContext:
    """The cluster that the options name: in Azure, with the login of `login_environ`, or in a kubeconfig.

    CheckFailed for a kubeconfig that cannot be used; errors of Azure pass through.
    """
    aks = options.aks
    if aks is not None:
        name = ClusterName(aks.subscription_id, aks.resource_group, aks.cluster)
        return kubeconfig_of(name, login_environ(), queue_home)
    return load(context=options.context or "", file=options.kubeconfig or "", environ=environ)


class KubernetesConnection:
    """The client of one target. The constructor reads nothing; the first use of `cluster` reads the
    kubeconfig, with CheckFailed for one that cannot be used, and the first use of `client` connects.
    """

    def __init__(self, options: KubernetesOptions, context: BackendContext) -> None:
        self.options = options
        self.context = context
        self.target = context.target
        self.folder = os.path.join(context.queue_home, "kubernetes")
        self.notes = RunNotes(self.folder)

    @cached_property
    def cluster(self) -> KubeContext:
        return find_cluster(self.options, self.context.login_environ, self.context.queue_home)

    @cached_property
    def namespace(self) -> str:
        return self.options.namespace or self.cluster.namespace

    @cached_property
    def client(self) -> KubeClient:
        return KubeClient(self.cluster, kept=Path(self.folder) / "credentials")

    @cached_property
    def site(self) -> str:
        """The cluster and the namespace: targets that have the same ones share answers."""
        return f"{self.cluster.cluster.server} {self.namespace}"

    @cached_property
    def known(self) -> KnownResources:
        return KnownResources(self.folder, self.site)

    @cached_property
    def polling(self) -> Polling:
        return Polling(self.context.queue_home, self.site, "kubernetes")
