"""Sets up a target of kind `kubernetes`: asks for context and namespace, and lists GPUs and queues."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gofer.backends.kubernetes.capacity import Survey, name_of, nodes_of
from gofer.backends.kubernetes.checks import ENFORCE, check_version, who_am_i
from gofer.backends.target_setup import Fact, Question, SetTarget, Setup, Step
from gofer.errors import CheckFailed
from gofer.text import count_nodes, did_you_mean
from gofer.transport.kubernetes import kubeconfig
from gofer.transport.kubernetes.client import KubeApiError, KubeClient

if TYPE_CHECKING:
    from gofer.backends.base import NodeFacts
    from gofer.backends.kind import CheckContext

_USUAL_IMAGE = "python:3.12"
_MOST_SHOWN = 12
_FILE_TEXT = "kubeconfig file (empty: as kubectl finds it)"
_STORE_TEXT = "name of a store `az://…` or `s3://…` of your settings, which the pods can reach"


def set_up(name: str, context: CheckContext) -> Setup:
    """Ask for the context and the namespace, and visit the cluster. CheckFailed for a kubeconfig without a
    context, a version that is too old, or a namespace that does not exist.
    """
    file: str = yield Question("kubeconfig", _FILE_TEXT, default="")
    options: dict[str, Any] = {"kind": "kubernetes", **({"kubeconfig": file} if file else {})}
    names, current = kubeconfig.list_contexts(file=file, environ=context.environ)
    if names:
        usual = current if current in names else names[0]
        options["context"] = yield Question("context", "context of the kubeconfig", tuple(names), usual)
    cluster = kubeconfig.load(context=options.get("context", ""), file=file, environ=context.environ)
    client = KubeClient(cluster, kept=Path(context.queue_home) / "kubernetes" / "credentials")
    try:
        options |= yield from _visit(client, cluster.namespace)
    finally:
        client.close()
    text = "image of the runs; it must contain Python 3.8 or newer"
    options["image"] = yield Question("image", text, default=_USUAL_IMAGE)
    options["store"] = yield Question("store", _STORE_TEXT)
    return SetTarget(options)


def _visit(client: KubeClient, usual: str) -> Generator[Step, Any, dict[str, Any]]:
    """What the cluster says: who the person is, the namespace, its GPUs and its queues."""
    server = check_version(client.get("/version"))
    if not server.ok:
        raise CheckFailed(f"{client.context.cluster.server}: {server.detail}", hint=server.hint)
    user = who_am_i(client)
    yield Fact("server", f"{client.context.cluster.server} {server.detail}{f', as `{user}`' if user else ''}")
    namespace = yield from _choose_namespace(client, usual)
    survey = Survey.read(client, namespace)
    found: dict[str, Any] = {"namespace": namespace}
    found |= yield from _gpu_options(nodes_of(survey))
    queues = tuple(sorted(map(name_of, survey.queues)))
    if queues:
        text = "queue of Kueue for the runs"
        found["queue"] = yield Question("queue", text, queues, queues[0])
    return found


def _choose_namespace(client: KubeClient, usual: str) -> Generator[Step, Any, str]:
    known = _namespaces(client)
    if known:
        more = ", …" if len(known) > _MOST_SHOWN else ""
        yield Fact("namespaces", f"{', '.join(list(known)[:_MOST_SHOWN])}{more}")
    namespace: str = yield Question("namespace", "namespace of the runs", default=usual)
    if known is not None and namespace not in known:
        hint = did_you_mean(namespace, known) or f"`kubectl create namespace {namespace}`"
        raise CheckFailed(f"the cluster has no namespace `{namespace}`", hint=hint)
    level = (known or {}).get(namespace)
    if level:
        yield Fact("namespace", f"`{namespace}` demands the Pod Security Standard `{level}`, which runs meet")
    return namespace


def _namespaces(client: KubeClient) -> dict[str, str] | None:
    """The namespaces with what each enforces; None without the right to list them. The cluster's own are left
    out.
    """
    try:
        items = client.get("/api/v1/namespaces").get("items") or ()
    except KubeApiError:
        return None
    levels: dict[str, str] = {}
    for one in items:
        labels: Mapping[str, str] = (one.get("metadata") or {}).get("labels") or {}
        if not name_of(one).startswith("kube-"):
            levels[name_of(one)] = labels.get(ENFORCE, "")
    return levels


def _gpu_options(nodes: list[NodeFacts] | None) -> Generator[Step, Any, dict[str, Any]]:
    """`gpus_per_node`, and `gpu_type` where the nodes have several types."""
    if nodes is None:
        yield Fact("nodes", "you may not list them")
        count: str = yield Question("gpus_per_node", "GPUs of one node", default="0")
        return {} if count == "0" else {"gpus_per_node": count}
    with_gpus: dict[str, list[NodeFacts]] = {}
    for node in nodes:
        if node.gpus:
            with_gpus.setdefault(node.gpu_type, []).append(node)
    yield Fact("nodes", f"{count_nodes(len(nodes))}{'' if with_gpus else ' without GPUs'}")
    for kind, holders in with_gpus.items():
        most, free = max(node.gpus for node in holders), sum(node.gpus_free for node in holders)
        yield Fact(kind or "GPUs", f"{count_nodes(len(holders))} of up to {most} GPUs, {free} free now")
    if not with_gpus:
        return {}
    kinds = tuple(kind for kind in with_gpus if kind)
    if len(kinds) < 2 or len(kinds) < len(with_gpus):
        return {"gpus_per_node": max(node.gpus for holders in with_gpus.values() for node in holders)}
    kind = yield Question("gpu_type", "type of GPU", kinds, kinds[0])
    return {"gpus_per_node": max(node.gpus for node in with_gpus[kind]), "gpu_type": kind}
