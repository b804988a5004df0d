"""The way to the API server of an AKS cluster by gofer's own Azure login: without kubelogin, az or kubectl.

Resource Manager gives the kubeconfig of the cluster. Where it names `kubelogin`, gofer fetches the token.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from gofer.config.redact import remember
from gofer.core import files, private_folder
from gofer.errors import CheckFailed, CredentialError, UnknownName, Unreachable
from gofer.transport.azure.credential import AzureCredential
from gofer.transport.azure.managed_cluster import ClusterName, ClusterService, connect
from gofer.transport.azure.problems import RequestRejected, ResourceNotFound
from gofer.transport.kubernetes.kubeconfig import FetchToken, KubeContext, parse

# The application that the API servers of all AKS clusters accept tokens for.
TOKEN_SCOPE = "6dae42f8-4368-4678-94ff-3960e28e3630/.default"
# A cluster that is made again under its name has another address and other certificates.
_FRESH_S = 3600.0
_OLDEST_S = 30 * 86400.0


def kubeconfig_of(cluster: ClusterName, environ: Mapping[str, str], queue_home: str) -> KubeContext:
    """The context of an AKS cluster. Blocking.

    `environ` selects the Azure login. The kubeconfig is kept in `queue_home`, in a file that only this user
    can read: nothing is fetched for an hour, and an older one is used while Azure cannot be asked.
    UnknownName without such a cluster, CheckFailed while it is being made.
    """
    path = kept_file(cluster, queue_home)
    arm = connect(environ, queue_home, remember)
    text = _kept(path, _FRESH_S)
    if text is None:
        try:
            text = _fetch(ClusterService(arm), cluster)
        except (CredentialError, Unreachable):
            # Without a login or a network to Azure, the cluster itself may still answer.
            text = _kept(path, _OLDEST_S)
            if text is None:
                raise
        else:
            private_folder.make(str(path.parent))
            files.write_whole(str(path), text, mode=0o600)
    context = parse(text, path)
    for secret in (context.user.token, context.user.key, context.user.password):
        if secret:
            remember(secret)
    own = context.user
    if own.plugin is not None or not (own.token or own.certificate or own.username):
        own = own._replace(plugin=None, fetch_token=_azure_token(arm.credential))
    return context._replace(user=own)


def forget_kubeconfig(cluster: ClusterName, queue_home: str) -> None:
    """Remove the kept kubeconfig of a cluster that is gone or is made again. Idempotent."""
    kept_file(cluster, queue_home).unlink(missing_ok=True)


def kept_file(cluster: ClusterName, queue_home: str) -> Path:
    """The file for the kubeconfig of the cluster, on this machine."""
    mark = hashlib.sha256(cluster.id.lower().encode()).hexdigest()[:16]
    return Path(queue_home) / "kubernetes" / f"aks-{mark}.yaml"


def _kept(path: Path, oldest_s: float) -> bytes | None:
    try:
        # A time in the future, after a change of the clock, does not count as fresh.
        is_fresh = 0 <= time.time() - os.stat(path).st_mtime < oldest_s
        return path.read_bytes() if is_fresh else None
    except OSError:
        return None


def _fetch(service: ClusterService, cluster: ClusterName) -> bytes:
    try:
        return service.kubeconfig(cluster)
    except ResourceNotFound as error:
        raise UnknownName(
            f"there is no AKS cluster `{cluster.name}` in the resource group `{cluster.group}`",
            hint=f"`gofer cluster create {cluster.name}` makes it, or correct `aks:` of the target",
        ) from error
    except RequestRejected as error:
        raise CheckFailed(
            f"the AKS cluster `{cluster.name}` gives no kubeconfig now: {error.words or error.message}",
            hint=f"`gofer cluster show {cluster.name}` says in which state it is",
        ) from error


def _azure_token(credential: AzureCredential) -> FetchToken:
    def fetch(is_refused: bool) -> str:
        if is_refused:
            credential.forget(TOKEN_SCOPE)
        return credential.token(TOKEN_SCOPE).value

    return fetch
