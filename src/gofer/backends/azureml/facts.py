"""What a target has and why its runs wait, in the terms of the backend contract. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.status import meaning_of
from gofer.backends.base import NodeFacts, Waiting
from gofer.backends.node_needs import is_of_type
from gofer.core.states import State
from gofer.text import parse_size

Json = Mapping[str, Any]
_COUNTS = {
    "idle": "idleNodeCount",
    "busy": "runningNodeCount",
    "preparing": "preparingNodeCount",
    "leaving": "leavingNodeCount",
    "unusable": "unusableNodeCount",
    "preempted": "preemptedNodeCount",
}
_FREE, _BUSY = ("idle",), ("running",)


def compute_facts(compute: Json) -> dict[str, object]:
    """The facts of one compute of the workspace; they depend on its kind."""
    properties = compute.get("properties") or {}
    kind, more = str(properties.get("computeType") or ""), properties.get("properties") or {}
    found: dict[str, object] = {
        "compute_kind": kind or None,
        "location": properties.get("computeLocation") or compute.get("location"),
        "state": properties.get("provisioningState"),
    }
    if kind == "AmlCompute":
        return found | _aml_compute(more)
    if kind == "Kubernetes":
        return found | {"namespace": more.get("namespace"), "instance_types": _instance_types(more)}
    return found


def _aml_compute(more: Json) -> dict[str, object]:
    scale, counts = more.get("scaleSettings") or {}, more.get("nodeStateCounts") or {}
    most = scale.get("maxNodeCount")
    # Every node that is not idle takes part of the limit, also one that leaves or cannot be used.
    used = sum(int(counts.get(name) or 0) for word, name in _COUNTS.items() if word != "idle")
    free = None if most is None else {"free": max(int(most) - used, 0), "total": int(most)}
    return {
        "vm_size": more.get("vmSize"),
        "vm_priority": more.get("vmPriority"),
        "nodes": {word: int(counts.get(name) or 0) for word, name in _COUNTS.items()},
        "max_nodes": free,
        "min_nodes": scale.get("minNodeCount"),
        "problems": [str(entry.get("message") or entry) for entry in more.get("errors") or ()] or None,
    }


def _instance_types(more: Json) -> list[dict[str, object]]:
    """A row for each instance type: its limits, and whether it is the default."""
    limits = {
        name: ((definition or {}).get("resources") or {}).get("limits") or {}
        for name, definition in (more.get("instanceTypes") or {}).items()
    }
    # The union of all keys, because instance types may limit different resources.
    columns = dict.fromkeys(key for row in limits.values() for key in row)
    default = more.get("defaultInstanceType")
    return [
        {
            "name": name,
            **{key.partition("/")[2] or key: row.get(key) for key in columns},
            "default": "yes" if name == default else "",
        }
        for name, row in limits.items()
    ]


class InstanceType(NamedTuple):
    """An instance type of a Kubernetes compute or of Singularity. `memory_mib` is None where the service does
    not say it. `words` name the GPU: the name itself, and the labels of the nodes.
    """

    name: str
    gpus: int
    memory_mib: int | None
    words: tuple[str, ...]


def smallest_type(
    types: Iterable[InstanceType], gpus: int, gpu_type: str | None, memory_mib: int
) -> InstanceType | None:
    """The one with the fewest GPUs, and then the least memory, that is enough; None when no type is
    enough. A type without a limit of memory has all that a node has.
    """
    fitting = [
        one
        for one in types
        if one.gpus >= gpus
        and (one.memory_mib is None or one.memory_mib >= memory_mib)
        and (gpu_type is None or any(has_gpu_of_type(word, gpu_type) for word in one.words))
    ]
    return min(fitting, key=lambda one: (one.gpus, one.memory_mib or 0), default=None)


def kubernetes_types(compute: Json) -> list[InstanceType]:
    """The instance types of a Kubernetes compute, in the order of the service."""
    more = (compute.get("properties") or {}).get("properties") or {}
    found = []
    for name, definition in (more.get("instanceTypes") or {}).items():
        limits = ((definition or {}).get("resources") or {}).get("limits") or {}
        labels = (definition or {}).get("nodeSelector") or {}
        gpus = sum(int(count or 0) for key, count in limits.items() if key.endswith("/gpu"))
        memory = _quantity_mib(limits.get("memory"))
        found.append(InstanceType(name, gpus, memory, (name, *map(str, labels.values()))))
    return found


def singularity_types(rows: Iterable[Mapping[str, Any]]) -> list[InstanceType]:
    """The instance types among the facts of a virtual cluster."""
    return [InstanceType(str(row["name"]), int(row["gpus"] or 0), None, (str(row["name"]),)) for row in rows]


_QUANTITY = re.compile(r"([0-9]+)([KMGT]i?)?")


def _quantity_mib(text: object) -> int | None:
    """A memory limit of Kubernetes, `64Gi`, in MiB; None where there is none."""
    match = _QUANTITY.fullmatch(str(text or ""))
    return None if match is None else parse_size(f"{match[1]}{match[2] or ''}") >> 20


# The GPU in Azure's machine sizes whose names do not say it.
_GPU_OF_SIZE = (
    (re.compile(r"nc\d+r?s_v2\b"), "p100"),
    (re.compile(r"nc\d+r?s_v3\b|nd\d+r?s?_v2"), "v100"),
    (re.compile(r"nd\d+(a[a-z]*)?_v4"), "a100"),
    (re.compile(r"nd\d+is[a-z]*_v5"), "h100"),
)


def has_gpu_of_type(size: str, wanted: str) -> bool:
    """Whether machines of a size, `Standard_NC24ads_A100_v4` or `ND40rs_v2`, have GPUs of the type."""
    known = [gpu for pattern, gpu in _GPU_OF_SIZE if pattern.search(size.lower())]
    return any(is_of_type(wanted, text) for text in (size, *known))


def size_of(compute: Json) -> str:
    """The machine size of a compute's nodes; "" where the service does not say it."""
    return str(((compute.get("properties") or {}).get("properties") or {}).get("vmSize") or "")


def most_nodes(compute: Json) -> int | None:
    """The most nodes that a compute may ever have; None where the service does not say it."""
    more = (compute.get("properties") or {}).get("properties") or {}
    most = (more.get("scaleSettings") or {}).get("maxNodeCount")
    return None if most is None else int(most)


# -- Singularity


def quotas(cluster: Json) -> list[dict[str, object]]:
    """Used and limit for each location and SLA tier, sorted by location."""
    managed = (cluster.get("properties") or {}).get("managed") or {}
    rows: list[dict[str, object]] = []
    for location, quota in sorted((managed.get("quotas") or {}).items()):
        rows += [
            {
                "location": location,
                "tier": limit.get("slaTier"),
                **({"series": limit["id"]} if limit.get("id") else {}),
                "used": limit.get("used"),
                "limit": limit.get("limit"),
            }
            for limit in (quota or {}).get("limits") or ()
        ]
    return rows


def quotas_for(options: AzureOptions, facts: Mapping[str, Any]) -> list[dict[str, object]]:
    """The quotas that a run of the target counts against: those of its tier, of the locations where it may
    run and, where it is known, of the series of its instance type.
    """
    wanted = (options.instance_type or "").removeprefix("Singularity.")
    series = {row["series"] for row in facts.get("instance_types") or () if row["name"] == wanted}
    return [
        row
        for row in facts.get("quota") or ()
        if str(row["tier"]).lower() == options.tier
        and (not options.locations or row["location"] in options.locations)
        and (not series or row.get("series") in (None, *series))
    ]


def cluster_facts(cluster: Json, types: Mapping[str, Sequence[Json]]) -> dict[str, object]:
    """The facts of a virtual cluster; `types` are the instance types of each location."""
    managed = (cluster.get("properties") or {}).get("managed") or {}
    overall = (managed.get("defaultGroupPolicyOverallQuotas") or {}).get("limits") or ()
    return {
        "cluster_locations": ", ".join(managed.get("locations") or sorted(managed.get("quotas") or {}))
        or None,
        "quota": quotas(cluster),
        "quota_of_series": [
            {
                "series": entry.get("name") or entry.get("id"),
                "used": entry.get("used"),
                "limit": entry.get("limit"),
            }
            for entry in overall
        ]
        or None,
        "instance_types": _series(types) or None,
    }


def _series(types: Mapping[str, Sequence[Json]]) -> list[dict[str, object]]:
    """A row for each instance type, sorted by name."""
    found: dict[str, dict[str, object]] = {}
    for location, rows in types.items():
        for series in rows:
            for entry in series.get("instanceTypes") or [series]:
                name = str(entry.get("name") or "")
                row = {"name": name, "series": series_of(entry, series)}
                row |= {"gpus": entry.get("numberOfGPUs"), "cores": entry.get("numberOfCores")}
                held = found.setdefault(name, {**row, "locations": ""})
                held["locations"] = ",".join(filter(None, [str(held["locations"]), location]))
    return [row for name, row in sorted(found.items()) if name]


def series_of(instance_type: Json, row: Json) -> str:
    """The series by which quotas count; `row` is the listing entry that contains the instance type."""
    return str(instance_type.get("instanceTypeSeriesId") or row.get("id") or row.get("name") or "")


# -- nodes and waiting


def nodes(found: Iterable[Json], options: AzureOptions) -> list[NodeFacts]:
    """The nodes, sorted by name."""
    return sorted((_node(entry, options) for entry in found), key=lambda entry: entry.name)


def _node(entry: Json, options: AzureOptions) -> NodeFacts:
    word = str(entry.get("nodeState") or "unknown").lower()
    state = "free" if word in _FREE else "busy" if word in _BUSY else "down"
    run = f", {entry['runId']}" if entry.get("runId") else ""
    return NodeFacts(
        str(entry.get("nodeId") or entry.get("privateIpAddress") or "?"),
        state,
        f"{word}{run}",
        gpus=options.gpus_per_node,
        gpus_free=options.gpus_per_node if state == "free" else 0,
        partitions=(options.compute,) if options.compute else (),
    )


def waiting(status: str, tags: Mapping[str, str], facts: Mapping[str, object]) -> Waiting | None:
    """Why a run waits; None for a run that does not wait. `facts` are those of `gofer target show`."""
    meaning = meaning_of(status, tags)
    if meaning.state == State.PAUSED:
        return Waiting("the service took back its nodes; the run continues when nodes are free")
    if meaning.state == State.STARTING:
        return Waiting(meaning.words or "its nodes are being prepared")
    if meaning.state != State.QUEUED:
        return None
    return Waiting(_why(facts) or "the service has not given it nodes yet")


def _why(facts: Mapping[str, object]) -> str | None:
    tiers = facts.get("quota")
    if isinstance(tiers, list):
        # The run waits for quota only if every tier and location where it may run is used up.
        full = [entry for entry in tiers if _is_full(entry)]
        if full and len(full) == len(tiers):
            shown = ", ".join(
                f"{entry['tier']} in {entry['location']}: {entry['used']} of {entry['limit']}"
                for entry in full
            )
            return f"the quota of the virtual cluster is used up ({shown})"
        return "the virtual cluster has quota left; the run waits for nodes of its instance type"
    limit, counts = facts.get("max_nodes"), facts.get("nodes")
    if isinstance(limit, Mapping) and isinstance(counts, Mapping):
        if not limit["free"]:
            return f"all {limit['total']} nodes of the compute are in use"
        busy, preparing = counts.get("busy", 0), counts.get("preparing", 0)
        return f"of at most {limit['total']} nodes, {busy} are busy and {preparing} in preparation"
    return None


def _is_full(entry: Mapping[str, Any]) -> bool:
    return entry["limit"] is not None and (entry["used"] or 0) >= entry["limit"]
