"""What a target has and why its runs wait, in the terms of the backend contract. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.status import meaning_of
from gofer.backends.base import NodeFacts, Waiting
from gofer.core.states import State

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
        "at_most": free,
        "at_least": scale.get("minNodeCount"),
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


def instance_type_for(compute: Json, gpus: int) -> str | None:
    """The instance type of a Kubernetes compute with the fewest GPUs that are at least `gpus`; None when none
    has so many.
    """
    counts = instance_type_gpus(compute)
    fitting = [name for name, count in counts.items() if count >= gpus]
    return min(fitting, key=counts.__getitem__, default=None)


def instance_type_gpus(compute: Json) -> dict[str, int]:
    """The GPUs of each instance type of a Kubernetes compute, in the order of the service."""
    more = (compute.get("properties") or {}).get("properties") or {}
    limits = {
        name: ((definition or {}).get("resources") or {}).get("limits") or {}
        for name, definition in (more.get("instanceTypes") or {}).items()
    }
    return {
        name: sum(int(count or 0) for key, count in row.items() if key.endswith("/gpu"))
        for name, row in limits.items()
    }


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
    limit, counts = facts.get("at_most"), facts.get("nodes")
    if isinstance(limit, Mapping) and isinstance(counts, Mapping):
        if not limit["free"]:
            return f"all {limit['total']} nodes of the compute are in use"
        busy, preparing = counts.get("busy", 0), counts.get("preparing", 0)
        return f"of at most {limit['total']} nodes, {busy} are busy and {preparing} in preparation"
    return None


def _is_full(entry: Mapping[str, Any]) -> bool:
    return entry["limit"] is not None and (entry["used"] or 0) >= entry["limit"]
