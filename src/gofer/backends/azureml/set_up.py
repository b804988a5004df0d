"""Sets up a target of kind `azureml`: lists what the login sees, and asks which of it to use."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from gofer.backends.azureml import names
from gofer.backends.azureml.checks.login import Access
from gofer.backends.azureml.names import Workspace
from gofer.backends.target_setup import Fact, Question, SetTarget, Setup, Step
from gofer.errors import CheckFailed
from gofer.text import count_nodes

if TYPE_CHECKING:
    from gofer.backends.kind import CheckContext

_SUBSCRIPTIONS_API = "2022-12-01"
_STORE = "workspaceblobstore"
_USUAL_IMAGE = "python:3.11"
_PLATFORMS = {"Kubernetes": "itp", "AmlCompute": "aml", "ComputeInstance": "aml"}

Row = dict[str, Any]


def set_up(name: str, context: CheckContext) -> Setup:
    """Ask for the subscription, the workspace and the compute, each chosen from what the account has.

    CredentialError when nobody is signed in; CheckFailed when the account has nothing to choose from.
    """
    access = Access(context)
    if access.problem is not None:
        raise access.problem
    subscriptions = _rows(access, "/subscriptions", _SUBSCRIPTIONS_API)
    for row in subscriptions:
        yield Fact("subscription", f"{row.get('subscriptionId')} ({row.get('displayName')})")
    subscription = yield from _choose(
        "subscription_id", "subscription", _values(subscriptions, "subscriptionId")
    )
    workspace = yield from _choose_workspace(access, subscription)
    options: Row = {
        "kind": "azureml",
        "subscription_id": subscription,
        "resource_group": workspace.group,
        "workspace": workspace.name,
    }
    options |= yield from _choose_compute(access, workspace)
    if "virtual_cluster" not in options:
        text = "Docker image of the runs; it must contain Python"
        options["image"] = yield Question("image", text, default=_USUAL_IMAGE)
    store = _default_store(access, workspace)
    if store is None:
        options["store"] = yield Question("store", "name of a store `az://container/prefix` of your settings")
        return SetTarget(options)
    yield Fact("store", f"{store['url']} of the account {store['account']}, the workspace's own")
    return SetTarget({**options, "store": name}, {name: store})


def _choose_workspace(access: Access, subscription: str) -> Generator[Step, Any, Workspace]:
    path = f"/subscriptions/{subscription}/providers/Microsoft.MachineLearningServices/workspaces"
    found = {
        str(row.get("name")): str(row.get("id", "")).split("/")[4]
        for row in _rows(access, path, names.WORKSPACES_API)
    }
    for name, group in found.items():
        yield Fact("workspace", f"{name} in the resource group {group}")
    name = yield from _choose("workspace", "workspace", tuple(found))
    return Workspace(subscription, found[name], name)


def _choose_compute(access: Access, workspace: Workspace) -> Generator[Step, Any, Row]:
    """The options that name a compute or a virtual cluster, with its GPUs."""
    computes = {
        str(row.get("name")): row for row in _rows(access, f"{workspace.id}/computes", names.COMPUTES_API)
    }
    clusters = _values(
        _rows(access, f"{workspace.beside}/virtualClusters", names.VIRTUAL_CLUSTERS_API), "name"
    )
    for name, row in computes.items():
        yield Fact("compute", f"{name}: {_describe(row)}")
    for name in clusters:
        yield Fact("virtual cluster", f"{name} of Singularity")
    name = yield from _choose("compute", "compute or virtual cluster", (*computes, *clusters))
    if name in computes:
        kind = str((computes[name].get("properties") or {}).get("computeType"))
        platform = _PLATFORMS.get(kind, "aml")
        options: Row = {"compute": name} if platform == "aml" else {"platform": platform, "compute": name}
    else:
        text = "instance type, as in ND40rs_v2"
        options = {"platform": "singularity", "virtual_cluster": name}
        options["instance_type"] = yield Question("instance_type", text)
    gpus: str = yield Question("gpus_per_node", "GPUs of one node", default="0")
    return {**options, "gpus_per_node": gpus}


def _choose(key: str, what: str, choices: tuple[str, ...]) -> Generator[Step, Any, str]:
    """The answer to a question with these choices; CheckFailed when there are none."""
    if not choices:
        raise CheckFailed(
            f"this login sees no {what}", hint="`gofer login` with another account or `--tenant T`"
        )
    answer: str = yield Question(key, what, choices, choices[0] if len(choices) == 1 else None)
    return answer


def _describe(compute: Row) -> str:
    properties = compute.get("properties") or {}
    details = properties.get("properties") or {}
    kind = str(properties.get("computeType", ""))
    types = list(details.get("instanceTypes") or {})
    if types:
        return f"{kind} with the instance types {', '.join(types)}"
    most = (details.get("scaleSettings") or {}).get("maxNodeCount")
    nodes = f", at most {count_nodes(int(most))}" if most else ""
    return f"{kind} of {details.get('vmSize') or 'unknown machines'}{nodes}"


def _default_store(access: Access, workspace: Workspace) -> Row | None:
    """The entry of `stores:` for the workspace's own container; None where the workspace does not have it."""
    found = access.arm.find(f"{workspace.id}/datastores/{_STORE}", names.DATASTORES_API)
    properties = (found or {}).get("properties") or {}
    account, container = properties.get("accountName"), properties.get("containerName")
    return {"url": f"az://{container}/gofer", "account": account} if account and container else None


def _rows(access: Access, path: str, api: str) -> list[Row]:
    return [row for page in access.arm.pages(path, api) for row in page]


def _values(rows: Sequence[Row], key: str) -> tuple[str, ...]:
    return tuple(str(row[key]) for row in rows if row.get(key))
