"""What a cluster has and what is free: its nodes, the quotas of the namespace, and the queues of Kueue.

`Survey.read` asks the cluster and blocks; everything else is pure. The right to list nodes is a right over
the whole cluster, and many people do not have it: then the quotas and queues of the namespace are all that is
known, and `describe` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.backends.base import NodeFacts
from gofer.backends.kubernetes.state import kueue
from gofer.backends.kubernetes.state.job_facts import conditions_of
from gofer.backends.kubernetes.state.scheduling import (
    explain_taint,
    name_resource,
    parse_quantity,
    plural_words,
)
from gofer.errors import CheckFailed
from gofer.text import count_nodes, format_size, quote_word
from gofer.transport.kubernetes.client import KubeApiError

if TYPE_CHECKING:
    from gofer.transport.kubernetes.client import KubeClient

Json = Mapping[str, Any]

_PAGE = "500"
# A listing of this many pages is the largest that is read: 50,000 nodes or pods.
_MOST_PAGES = 100
_NVIDIA = "nvidia.com/gpu"
# Labels that name the type of a node's GPUs, by whom the node comes from.
GPU_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
    "amd.com/gpu.product-name",
    "gpu.nvidia.com/model",
    "skypilot.co/accelerator",
    "accelerator",
)
# Pools of nodes that an autoscaler may change; their nodes say so by these labels.
_POOL_LABELS = (
    "kubernetes.azure.com/agentpool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "agentpool",
)
_MACHINE = "node.kubernetes.io/instance-type"
# Effects of a taint that keep a pod away; the third is only a preference.
_FORBIDDING = ("NoSchedule", "NoExecute")


class PodShape(NamedTuple):
    """What decides on which nodes a pod fits: the amounts that it requests by resource, the labels that it
    wants, each with the values that it takes, and its tolerations.
    """

    requests: Mapping[str, float] = MappingProxyType({})
    labels: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    tolerations: Sequence[Mapping[str, Any]] = ()


def shape_of(spec: Json) -> PodShape:
    """The shape of a pod with this `spec`. Of several alternatives of node affinity none counts, since each
    alone would do.
    """
    chosen: Mapping[str, str] = spec.get("nodeSelector") or {}
    labels: dict[str, tuple[str, ...]] = {key: (str(value),) for key, value in chosen.items()}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: Sequence[Json] = required.get("nodeSelectorTerms") or ()
    for one in (terms[0].get("matchExpressions") or ()) if len(terms) == 1 else ():
        if one.get("operator") == "In":
            labels[str(one.get("key"))] = tuple(map(str, one.get("values") or ()))
    return PodShape({**requests_of(spec), "pods": 1.0}, labels, spec.get("tolerations") or ())


class Survey(NamedTuple):
    """What was read of a cluster. `nodes` is None without the right to list them. `sees_all_pods` is False
    where only the pods of the namespace could be read: then nodes may be fuller than they seem.
    """

    namespace: str
    nodes: Sequence[Json] | None
    pods: Sequence[Json] = ()
    sees_all_pods: bool = True
    quotas: Sequence[Json] = ()
    sees_quotas: bool = True
    queues: Sequence[Json] = ()
    gpu_resource: str = _NVIDIA

    @classmethod
    def read(cls, client: KubeClient, namespace: str, *, gpu_resource: str = _NVIDIA) -> Survey:
        """Ask the cluster; two to five requests, and one more for each further 500 nodes or pods. What the
        credential may not read is left out. Errors are those of the client.
        """
        nodes = list_allowed(client, "/api/v1/nodes")
        pods, sees_all = _read_pods(client, namespace) if nodes is not None else ([], False)
        quotas = list_allowed(client, f"/api/v1/namespaces/{namespace}/resourcequotas")
        queues = read_queues(client, namespace)
        return cls(namespace, nodes, pods, sees_all, quotas or [], quotas is not None, queues, gpu_resource)


def read_queues(client: KubeClient, namespace: str) -> list[Json]:
    """The queues of Kueue in the namespace; empty on a cluster without Kueue."""
    for version in kueue.VERSIONS:
        path = f"/apis/{kueue.GROUP}/{version}/namespaces/{namespace}/localqueues"
        found = list_allowed(client, path)
        if found is not None:
            return found
    return []


def list_allowed(client: KubeClient, path: str, query: Mapping[str, str] | None = None) -> list[Json] | None:
    """The objects, in pages of 500; None where the credential may not list them, or the cluster has no such
    kind.
    """
    found: list[Json] = []
    asked = {**(query or {}), "limit": _PAGE}
    try:
        for _ in range(_MOST_PAGES):
            answer = client.get(path, asked)
            found += answer.get("items") or ()
            more = (answer.get("metadata") or {}).get("continue")
            if not more:
                break
            asked = {**asked, "continue": str(more)}
        return found
    except KubeApiError as error:
        if error.status in (403, 404):
            return None
        raise


def _read_pods(client: KubeClient, namespace: str) -> tuple[list[Json], bool]:
    """The pods that hold part of a node, and whether they are those of all namespaces."""
    chosen = {"fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
    everywhere = list_allowed(client, "/api/v1/pods", chosen)
    if everywhere is not None:
        return everywhere, True
    return list_allowed(client, f"/api/v1/namespaces/{namespace}/pods", chosen) or [], False


def nodes_of(survey: Survey) -> list[NodeFacts] | None:
    """The nodes, sorted by name; None without the right to list them."""
    if survey.nodes is None:
        return None
    used = _used_by_node(survey.pods)
    found = (_node(node, used.get(name_of(node), {}), survey.gpu_resource) for node in survey.nodes)
    return sorted(found, key=lambda node: node.name)


def describe(survey: Survey) -> dict[str, object]:
    """What the cluster has, as plain values for `gofer target show`."""
    found: dict[str, object] = {}
    nodes = nodes_of(survey)
    if nodes is not None:
        up = [node for node in nodes if node.state != "down"]
        found["nodes"] = {"free": sum(node.state == "free" for node in up), "total": len(nodes)}
        found["gpus"] = {
            "free": sum(node.gpus_free for node in up),
            "total": sum(node.gpus for node in nodes),
        }
        found["gpu_types"] = _by_type(nodes)
    if survey.queues:
        found["queues"] = kueue.describe_queues(survey.queues)
    quotas = list(_quota_rows(survey.quotas))
    if quotas:
        found["quota"] = quotas
    unseen = _unseen(survey)
    return found | ({"not_seen": unseen} if unseen else {})


def _unseen(survey: Survey) -> str | None:
    if survey.nodes is None:
        return "nodes: your credential may not list them; `gofer doctor kubernetes` prints the missing right"
    if not survey.sees_all_pods:
        return f"pods outside the namespace `{survey.namespace}`: nodes may be fuller than they seem"
    return None


def _by_type(nodes: Iterable[NodeFacts]) -> list[dict[str, object]] | None:
    """A row for each type of GPU; None without GPUs."""
    free: Counter[str] = Counter()
    total: Counter[str] = Counter()
    holders: Counter[str] = Counter()
    for node in nodes:
        if node.gpus:
            free[node.gpu_type] += node.gpus_free
            total[node.gpu_type] += node.gpus
            holders[node.gpu_type] += 1
    rows: list[dict[str, object]] = [
        {"type": kind or "not labelled", "free": free[kind], "total": total[kind], "nodes": holders[kind]}
        for kind in sorted(total)
    ]
    return rows or None


def _quota_rows(quotas: Sequence[Json]) -> Iterator[dict[str, object]]:
    for quota in quotas:
        status = quota.get("status") or {}
        used = status.get("used") or {}
        for name, limit in (status.get("hard") or {}).items():
            yield {"quota": name_of(quota), "of": name, "used": str(used.get(name, "0")), "limit": str(limit)}


def check_fit(survey: Survey, shape: PodShape, count: int, *, target: str) -> None:
    """CheckFailed when a run of `count` such pods can never start: too few nodes are large enough, or the
    quota of the namespace is too small. Nodes that are busy or down count, since they can become free.
    Nothing is known, and nothing refused, where nodes may not be listed or an autoscaler may add others.
    """
    misfit = find_quota_misfit(survey.quotas, shape, count)
    if misfit is None and survey.nodes is not None and not may_grow(survey.nodes):
        misfit = find_misfit(survey.nodes, shape, count)
    if misfit is not None:
        raise CheckFailed(
            f"the run can never start on the target `{target}`: {misfit}",
            hint=f"ask for less, or choose another target: `gofer list nodes -t {quote_word(target)}`",
        )


def may_grow(nodes: Iterable[Json]) -> bool:
    """Whether some nodes belong to a pool of a cloud, to which an autoscaler may add nodes."""
    return any(label in _labels(node) for node in nodes for label in _POOL_LABELS)


def find_misfit(nodes: Sequence[Json], shape: PodShape, count: int) -> str | None:
    """Why the nodes can never hold `count` such pods at once; None when they can. Several pods may share a
    node.
    """
    reasons: Counter[str] = Counter()
    room = 0
    for node in nodes:
        reason = _refusal(node, shape)
        if reason:
            reasons[reason] += 1
        else:
            room += _room_for(node, shape)
    if room >= count:
        return None
    said = ", ".join(f"{count_nodes(of)} {plural_words(words, of)}" for words, of in reasons.most_common(4))
    if not room:
        return f"its pods fit on none of the {count_nodes(len(nodes))}{f': {said}' if said else ''}"
    return (
        f"only {room} of its {count} pods fit on the {count_nodes(len(nodes))}{f': {said}' if said else ''}"
    )


def find_quota_misfit(quotas: Sequence[Json], shape: PodShape, count: int) -> str | None:
    """The quota that is smaller than `count` such pods; None when each is large enough. A quota with a scope
    may hold for other pods only, and is left out.
    """
    asked = {f"requests.{name}": amount * count for name, amount in shape.requests.items()}
    asked |= {
        name: amount * count for name, amount in shape.requests.items() if name in ("cpu", "memory", "pods")
    }
    for quota in quotas:
        spec = quota.get("spec") or {}
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        for name, limit in (spec.get("hard") or {}).items():
            wanted = asked.get(name, 0.0)
            if wanted > parse_quantity(limit):
                what = show_amount(name, wanted)
                return f"it asks for {what}, and the quota `{name_of(quota)}` of the namespace allows {limit}"
    return None


def show_amount(resource: str, amount: float) -> str:
    """`16 GPUs`, `64.0 GiB of memory`."""
    name = name_resource(resource)
    if name in ("memory", "disk"):
        return f"{format_size(int(amount))} of {name}"
    return f"{amount:g} {name.removesuffix('s') if amount == 1 else name}"


def _room_for(node: Json, shape: PodShape) -> int:
    """How many such pods an empty node holds."""
    has = _allocatable(node)
    return min(
        (int(has.get(name, 0.0) // amount) for name, amount in shape.requests.items() if amount), default=1
    )


def _refusal(node: Json, shape: PodShape) -> str | None:
    """Why the node can never hold such a pod, even when it is empty; None when it can."""
    has, labels = _allocatable(node), _labels(node)
    for key, values in shape.labels.items():
        if labels.get(key) not in values:
            return f"has not the label `{key}={' or '.join(values)}`"
    for name, amount in shape.requests.items():
        if amount > has.get(name, 0.0):
            return (
                f"has only {show_amount(name, has[name])}"
                if has.get(name)
                else f"has no {name_resource(name)}"
            )
    return next((f"has the taint `{taint}`" for taint in _strange_taints(node, shape)), None)


def _strange_taints(node: Json, shape: PodShape) -> Iterator[str]:
    """The taints of a node that such a pod does not tolerate, without those that pass by themselves."""
    for taint in (node.get("spec") or {}).get("taints") or ():
        key, value = str(taint.get("key") or ""), str(taint.get("value") or "")
        if taint.get("effect") not in _FORBIDDING or key.startswith("node.kubernetes.io/"):
            continue
        if not any(tolerates(one, taint) for one in shape.tolerations):
            yield f"{key}={value}" if value else key


def explain_taints(nodes: Iterable[Json], tolerations: Sequence[Mapping[str, Any]]) -> list[str]:
    """What keeps a pod with these tolerations away from the nodes, the most frequent first."""
    found: Counter[str] = Counter()
    for node in nodes:
        for taint in (node.get("spec") or {}).get("taints") or ():
            if taint.get("effect") in _FORBIDDING and not any(tolerates(one, taint) for one in tolerations):
                found[explain_taint(str(taint.get("key") or ""), str(taint.get("value") or ""))[0]] += 1
                break
    return [f"{count_nodes(number)} {plural_words(words, number)}" for words, number in found.most_common()]


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a toleration of a pod covers a taint of a node, by the rules of Kubernetes."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key = toleration.get("key")
    if not key:
        return toleration.get("operator") == "Exists"
    if key != taint.get("key"):
        return False
    is_equal = str(toleration.get("value") or "") == str(taint.get("value") or "")
    return is_equal or toleration.get("operator") == "Exists"


def gpu_type_of(node: Json) -> str:
    """The type of a node's GPUs by its labels, else its type of machine; "" where nothing names it."""
    labels = _labels(node)
    named = next((labels[label] for label in GPU_LABELS if labels.get(label)), None)
    return named or labels.get(_MACHINE, "")


def name_of(document: Json) -> str:
    """The name of an object."""
    return str((document.get("metadata") or {}).get("name") or "")


def _node(node: Json, used: Mapping[str, float], gpu_resource: str) -> NodeFacts:
    has = _allocatable(node)
    gpus, cpus = int(has.get(gpu_resource, 0.0)), int(has.get("cpu", 0.0))
    state, detail = _state(node, used, gpus, gpu_resource)
    is_up = state != "down"
    return NodeFacts(
        name_of(node),
        state,
        detail,
        cpus=cpus,
        cpus_free=max(int(has.get("cpu", 0.0) - used.get("cpu", 0.0)), 0) if is_up else 0,
        memory_mib=int(has.get("memory", 0.0)) >> 20,
        gpus=gpus,
        gpus_free=max(gpus - int(used.get(gpu_resource, 0.0)), 0) if is_up else 0,
        gpu_type=gpu_type_of(node) if gpus else "",
        partitions=tuple(_labels(node)[label] for label in _POOL_LABELS if label in _labels(node))[:1],
    )


def _state(node: Json, used: Mapping[str, float], gpus: int, gpu_resource: str) -> tuple[str, str]:
    """The state in gofer's terms, and the word of the cluster. GPUs decide on a node that has some."""
    ready = conditions_of(node.get("status") or {}).get("Ready", {}).get("status")
    if ready != "True":
        return "down", "NotReady" if ready == "False" else "not answering"
    if (node.get("spec") or {}).get("unschedulable"):
        return "down", "SchedulingDisabled"
    if gpus:
        taken = int(used.get(gpu_resource, 0.0))
        return ("busy" if taken >= gpus else "mixed" if taken else "free"), "Ready"
    has = _allocatable(node)
    share = used.get("cpu", 0.0) / has["cpu"] if has.get("cpu") else 0.0
    # Small pods of the cluster itself are on every node.
    return ("busy" if share >= 0.95 else "mixed" if share >= 0.25 else "free"), "Ready"


def _used_by_node(pods: Iterable[Json]) -> dict[str, dict[str, float]]:
    """The sums of what the pods of each node request."""
    found: dict[str, dict[str, float]] = {}
    for pod in pods:
        spec = pod.get("spec") or {}
        used = found.setdefault(str(spec.get("nodeName") or ""), {})
        for name, amount in requests_of(spec).items():
            used[name] = used.get(name, 0.0) + amount
    return found


def requests_of(spec: Json) -> dict[str, float]:
    """What a pod takes of its node: the sum of its containers, or its largest init container if that is more.
    An init container that goes on beside the others counts as one of them.
    """
    total: dict[str, float] = {}
    largest: dict[str, float] = {}
    containers = list(spec.get("containers") or ())
    for one in spec.get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            containers.append(one)
            continue
        for name, amount in _requests(one).items():
            largest[name] = max(largest.get(name, 0.0), amount)
    for one in containers:
        for name, amount in _requests(one).items():
            total[name] = total.get(name, 0.0) + amount
    return {name: max(total.get(name, 0.0), largest.get(name, 0.0)) for name in {**total, **largest}}


def _requests(container: Json) -> dict[str, float]:
    resources = container.get("resources") or {}
    # What has a limit and no request requests its limit.
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(value) for name, value in asked.items()}


def _allocatable(node: Json) -> dict[str, float]:
    status = node.get("status") or {}
    return {name: parse_quantity(value) for name, value in (status.get("allocatable") or {}).items()}


def _labels(node: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = (node.get("metadata") or {}).get("labels") or {}
    return found
