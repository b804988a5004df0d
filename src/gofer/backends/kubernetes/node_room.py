"""The nodes of a cluster as far as they decide what can ever fit, remembered for ten minutes.

A thousand nodes are 20 MB as JSON. Equal nodes are kept once, with their number.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gofer.backends.kubernetes.capacity import Survey, check_fit, list_allowed, name_of, shape_of
from gofer.errors import CheckFailed

if TYPE_CHECKING:
    from gofer.backends.kubernetes.connection import KubernetesConnection

Json = Mapping[str, Any]

_REMEMBERED_S = 600.0
_KIND, _NAME = "nodes", "room"


def read_nodes(connection: KubernetesConnection, *, is_fresh: bool = False) -> list[Json] | None:
    """The nodes; None without the right to list them. Asks the cluster once in ten minutes, or at once for
    `is_fresh`; errors are those of the client.
    """
    kept = connection.known.get(_KIND, _NAME)
    is_old = not isinstance(kept, dict) or not 0.0 <= time.time() - float(kept["at"]) < _REMEMBERED_S
    if is_fresh or is_old:
        found = list_allowed(connection.client, "/api/v1/nodes")
        kept = {"at": time.time(), "nodes": None if found is None else trim_nodes(found)}
        connection.known.put(_KIND, _NAME, kept)
    nodes: list[tuple[Json, int]] | None = kept["nodes"]
    return None if nodes is None else [node for node, count in nodes for _ in range(count)]


def trim_nodes(nodes: Iterable[Json]) -> list[tuple[Json, int]]:
    """What decides what fits on each node, and how many nodes are the same. Pure."""
    found = Counter(json.dumps(_trim(node), sort_keys=True) for node in nodes)
    return [(json.loads(text), count) for text, count in found.items()]


def _trim(node: Json) -> Json:
    labels: Mapping[str, str] = (node.get("metadata") or {}).get("labels") or {}
    own = name_of(node)
    return {
        "metadata": {"labels": {key: value for key, value in labels.items() if value != own}},
        "spec": {"taints": (node.get("spec") or {}).get("taints") or []},
        "status": {"allocatable": (node.get("status") or {}).get("allocatable") or {}},
    }


def check_room(connection: KubernetesConnection, spec: Json, count: int) -> None:
    """CheckFailed when `count` pods with this `spec` can never run at once. The quotas of the namespace are
    asked only for several pods: the cluster itself checks one.
    """
    quotas = None
    if count > 1:
        quotas = list_allowed(connection.client, f"/api/v1/namespaces/{connection.namespace}/resourcequotas")
    survey = Survey(connection.namespace, read_nodes(connection), quotas=quotas or ())
    try:
        check_fit(survey, shape_of(spec), count, target=connection.target)
    except CheckFailed:
        # Nodes may have come since they were listed.
        survey = survey._replace(nodes=read_nodes(connection, is_fresh=True))
        check_fit(survey, shape_of(spec), count, target=connection.target)
