"""Check the Azure service: that it answers, its clock, and everything that a target names."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gofer.backends.azureml import names
from gofer.backends.azureml.checks.target_resources import listed, names_in, nearest, options_of, workspace_of
from gofer.backends.azureml.checks.virtual_cluster import virtual_cluster_checks
from gofer.backends.azureml.datastores import RENEW, own_end
from gofer.errors import CredentialError, GoferError
from gofer.model.checks import Check, Status, guarded
from gofer.objects.client import Client, HttpRequest, Signer
from gofer.objects.facts import ObjectsError
from gofer.objects.proxies import proxy_for
from gofer.objects.retry_policy import Policy
from gofer.objects.wire import HttpResponse
from gofer.text import format_duration, format_moment
from gofer.transport.azure.profile import login_command, show_command

if TYPE_CHECKING:
    from gofer.backends.azureml.checks.login import Access
    from gofer.backends.azureml.names import Workspace
    from gofer.config.targets import Target

_CLOCK_S = 60.0
# The service refuses tokens and signatures when the clocks differ by more.
_CLOCK_FAILS_S = 300.0
_SILENCE_S = 20.0
_SUBSCRIPTIONS_API = "2022-12-01"
_HINTS = {
    "name": "is this machine online? a VPN may have to be switched on",
    "tls": "set `SSL_CERT_FILE` to the certificates of its issuer, which may be a proxy in between",
    "timeout": "check the network: is there a VPN to switch on, or a proxy to name in `HTTPS_PROXY`?",
    "connection": "check the network: is there a VPN to switch on, or a proxy to name in `HTTPS_PROXY`?",
}


class _Unsigned(Signer):
    """Sends requests without credentials."""

    def sign(self, request: HttpRequest) -> tuple[str, dict[str, str]]:
        return request.target, {"Accept": "application/json"}


def service_checks(access: Access) -> Iterator[Check]:
    """Check that the service answers, through which proxy, and how far its clock and ours differ."""
    try:
        arm = access.cloud.arm
    except GoferError as error:
        yield Check("service", Status.FAIL, error.message, error.hint)
        return
    host = urlsplit(arm).hostname or ""
    proxy = proxy_for(urlsplit(arm).scheme, host, os.environ)
    through = f" through the proxy {proxy.host}:{proxy.port}" if proxy else ""
    client = Client(arm, _Unsigned(), policy=Policy(tries=2, first_s=0.2), silence_timeout_s=_SILENCE_S)
    try:
        client.call(
            HttpRequest("GET", "/metadata/endpoints", {"api-version": "2019-05-01"}), HttpResponse.read
        )
    except ObjectsError as error:
        if error.status == 0:
            yield Check("service", Status.FAIL, f"{host}{through}: {error.words}", _HINTS.get(error.code))
            return
    finally:
        client.close()
    yield Check("service", Status.OK, f"{host} answers{through}")
    yield from _clock(client.clock_ahead_s)


def _clock(ahead_s: float | None) -> Iterator[Check]:
    if ahead_s is None or abs(ahead_s) <= _CLOCK_S:
        return
    status = Status.FAIL if abs(ahead_s) > _CLOCK_FAILS_S else Status.WARN
    which = "behind" if ahead_s > 0 else "ahead of"
    words = f"this machine's clock is {format_duration(abs(ahead_s))} {which} the service's"
    yield Check("clock", status, words, "set the clock: `timedatectl set-ntp true`; tokens depend on it")


def target_checks(access: Access, target: Target) -> list[Check]:
    """Check the subscription, the workspace, then what the target names in it. After a failure, checks that
    depend on it are left out.
    """
    found: list[Check] = []
    steps: list[Callable[[], Iterator[Check]]] = [
        functools.partial(_names, target),
        functools.partial(_subscription, access, target),
        functools.partial(_workspace, access, target),
    ]
    for step in steps:
        found += guarded(f"target {target.name}", step)
        if any(not check.ok for check in found):
            return found
    for last in (_compute, virtual_cluster_checks, _datastore):
        found += guarded(f"target {target.name}", functools.partial(last, access, target))
    return found


def _names(target: Target) -> Iterator[Check]:
    missing = [
        key
        for key in ("subscription_id", "resource_group", "workspace")
        if not getattr(options_of(target), key)
    ]
    is_cluster = options_of(target).platform == "singularity"
    places = ("virtual_cluster", "instance_type") if is_cluster else ("compute",)
    missing += [key for key in places if not getattr(options_of(target), key)]
    if missing:
        words = f"the target does not name its {', '.join(f'`{key}`' for key in missing)}"
        hint = f"write it under `targets: {target.name}:` ({target.place.where})"
        yield Check(f"target {target.name}", Status.FAIL, words, hint)


def _subscription(access: Access, target: Target) -> Iterator[Check]:
    wanted = str(options_of(target).subscription_id)
    seen = listed(access, "/subscriptions", _SUBSCRIPTIONS_API)
    ids = [str(one.get("subscriptionId", "")) for one in seen]
    if wanted.lower() not in [one.lower() for one in ids]:
        tenants = {str(one.get("tenantId", "")) for one in seen} - {""}
        where = f" in the tenant {', '.join(sorted(tenants))}" if tenants else ""
        yield Check(
            f"target {target.name} subscription",
            Status.FAIL,
            f"the login sees {len(ids)} subscriptions{where}, and `{wanted}` is not among them",
            f"{login_command(access.profile, '--tenant T')} signs in to the tenant it is in; "
            f"{show_command(access.profile)} says who you are",
        )


def _workspace(access: Access, target: Target) -> Iterator[Check]:
    workspace = workspace_of(target)
    what = f"target {target.name} workspace"
    if access.arm.find(workspace.id, names.WORKSPACES_API) is None:
        known = names_in(access, f"{workspace.beside}/workspaces", names.WORKSPACES_API)
        words = f"there is no workspace `{workspace.name}` in the resource group `{workspace.group}`"
        yield Check(what, Status.FAIL, words, nearest(workspace.name, known, "workspaces"))
    else:
        yield Check(what, Status.OK, f"{workspace.name} in {workspace.group}")


def _compute(access: Access, target: Target) -> Iterator[Check]:
    if options_of(target).platform == "singularity":
        return
    workspace, name = workspace_of(target), str(options_of(target).compute)
    what = f"target {target.name} compute"
    found = access.arm.find(workspace.compute(name), names.COMPUTES_API)
    if found is None:
        known = names_in(access, f"{workspace.id}/computes", names.COMPUTES_API)
        words = f"the workspace `{workspace.name}` has no compute `{name}`"
        yield Check(what, Status.FAIL, words, nearest(name, known, "computes"))
        return
    properties = found.get("properties") or {}
    state = str(properties.get("provisioningState", ""))
    kind = str(properties.get("computeType", ""))
    if state not in ("Succeeded", "Updating", ""):
        yield Check(what, Status.FAIL, f"{name} is {state}", "ask its owner, or name another compute")
        return
    yield Check(what, Status.OK, f"{name} ({kind})")
    yield from _instance_type(target, name, kind, properties)


def _instance_type(target: Target, name: str, kind: str, properties: dict[str, Any]) -> Iterator[Check]:
    """Check the instance type on Kubernetes, and elsewhere that the compute may have nodes at all."""
    details = properties.get("properties") or {}
    wanted = options_of(target).instance_type
    types = list(details.get("instanceTypes") or {})
    if kind == "Kubernetes" and wanted and types and wanted not in types:
        words = f"the compute `{name}` has no instance type `{wanted}`"
        what = f"target {target.name} instance type"
        yield Check(what, Status.FAIL, words, nearest(str(wanted), types, "instance types"))
    most = (details.get("scaleSettings") or {}).get("maxNodeCount")
    if most == 0:
        words = f"the compute `{name}` may have no nodes (`maxNodeCount` is 0)"
        yield Check(
            f"target {target.name} quota", Status.FAIL, words, "ask for nodes, or name another compute"
        )


def _datastore(access: Access, target: Target) -> Iterator[Check]:
    name = options_of(target).datastore
    if not name:
        return
    workspace = workspace_of(target)
    what = f"target {target.name} datastore"
    if access.arm.find(f"{workspace.id}/datastores/{name}", names.DATASTORES_API) is None:
        known = names_in(access, f"{workspace.id}/datastores", names.DATASTORES_API)
        words = f"the workspace `{workspace.name}` has no datastore `{name}`"
        yield Check(what, Status.FAIL, words, nearest(str(name), known, "datastores"))
        return
    yield _datastore_end(access, what, workspace, str(name))


def _datastore_end(access: Access, what: str, workspace: Workspace, name: str) -> Check:
    try:
        ends_at = own_end(access.arm, workspace, name)
    except CredentialError:
        return Check(what, Status.OK, f"{name}; this login may not see its credentials")
    now = time.time()
    if ends_at is None or ends_at > now + access.longest_run_s:
        return Check(what, Status.OK, name)
    words = f"{name}: the SAS in it {'expired' if ends_at <= now else 'ends'} at {format_moment(ends_at)}"
    return Check(what, Status.FAIL if ends_at <= now else Status.WARN, words, RENEW)
