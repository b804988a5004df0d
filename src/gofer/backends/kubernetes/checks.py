"""What commonly fails with Kubernetes: one check for each thing, with a hint. The checks submit nothing.

Each target is checked as far as it goes: its kubeconfig, the server, the credential, the namespace, the
rights in it, its quotas, and the nodes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.backends.kubernetes import rights
from gofer.backends.kubernetes.capacity import GPU_LABELS, Survey, nodes_of
from gofer.backends.kubernetes.connection import find_cluster
from gofer.backends.kubernetes.options import KubernetesOptions
from gofer.backends.kubernetes.state.scheduling import name_resource, parse_quantity
from gofer.errors import CredentialError, GoferError
from gofer.model.checks import Check, Status
from gofer.text import count_nodes, did_you_mean, quote_word
from gofer.transport.kubernetes.client import KubeApiError, KubeClient

if TYPE_CHECKING:
    from gofer.backends.kind import CheckContext
    from gofer.config.targets import Target
    from gofer.transport.kubernetes.kubeconfig import KubeContext

Json = Mapping[str, Any]

OLDEST = (1, 29)
ENFORCE = "pod-security.kubernetes.io/enforce"
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
# A quota of which this part is used is nearly used up.
_NEARLY = 0.9
_APPLY = "who runs the cluster can give it, with `kubectl apply -f -` and these lines:"


class _Visit(NamedTuple):
    """A cluster that answers: what the checks of one target ask."""

    name: str
    target: str
    options: KubernetesOptions
    client: KubeClient
    namespace: str
    user: str


def kubernetes_checks(targets: Sequence[Target], context: CheckContext) -> Iterator[Check]:
    """The checks of these targets, and of the current context when there are none. Asks clusters; blocks."""
    if not targets:
        yield from _check("", KubernetesOptions(), context)
    for target in targets:
        if isinstance(target.options, KubernetesOptions):
            yield from _check(target.name, target.options, context)


def _check(target: str, options: KubernetesOptions, context: CheckContext) -> Iterator[Check]:
    """The checks of one target; the first that fails for all ends them."""
    prefix = f"target {target} " if target else ""
    try:
        cluster = find_cluster(
            options,
            lambda: context.logins.environ_for(f"the target `{target}`", options.profile),
            context.queue_home,
            context.environ,
        )
    except GoferError as error:
        yield Check(f"{prefix}kubeconfig", Status.FAIL, error.message, error.hint)
        return
    namespace = options.namespace or cluster.namespace
    words = f"context `{cluster.name}`, server {cluster.cluster.server}, namespace `{namespace}`"
    yield Check(f"{prefix}kubeconfig", Status.OK, words)
    missing = _missing_plugin(cluster, context.environ)
    if missing is not None:
        yield missing._replace(name=f"{prefix}{missing.name}")
        return
    client = KubeClient(cluster, kept=Path(context.queue_home) / "kubernetes" / "credentials")
    try:
        yield from _check_cluster(prefix, target, options, client, namespace)
    except GoferError as error:
        yield Check(f"{prefix}server", Status.FAIL, error.message, error.hint)
    finally:
        client.close()


def _missing_plugin(cluster: KubeContext, environ: Mapping[str, str]) -> Check | None:
    """The check of the program that gives the credential; None when it is there, or none is needed."""
    plugin = cluster.user.plugin
    if plugin is None or shutil.which(plugin.command, path=environ.get("PATH")):
        return None
    words = f"there is no program `{plugin.command}`, which {plugin.file} asks for a credential"
    return Check("credential program", Status.FAIL, words, plugin.install_hint or "install it")


def _check_cluster(
    prefix: str, target: str, options: KubernetesOptions, client: KubeClient, namespace: str
) -> Iterator[Check]:
    server = check_version(client.get("/version"))
    yield server._replace(name=f"{prefix}{server.name}")
    try:
        user = who_am_i(client)
    except CredentialError as error:
        yield Check(f"{prefix}credential", Status.FAIL, error.message, error.hint)
        return
    shown = f"signed in as `{user}`" if user else "accepted; the cluster does not say who you are"
    yield Check(f"{prefix}credential", Status.OK, shown)
    visit = _Visit(prefix, target, options, client, namespace, user)
    for check in (*_namespace(visit), *_rights(visit), *_named_objects(visit), *_capacity(visit)):
        yield check._replace(name=f"{prefix}{check.name}")


def check_version(answer: Json) -> Check:
    """The check of the server's version, from its answer about itself. Pure."""
    text = str(answer.get("gitVersion") or "")
    found = _VERSION.match(text)
    if not found:
        return Check("server", Status.WARN, f"answers with the version `{text}`, which gofer does not know")
    if (int(found[1]), int(found[2])) < OLDEST:
        words = f"Kubernetes {text}, and gofer needs {OLDEST[0]}.{OLDEST[1]} or newer"
        return Check("server", Status.FAIL, words, "ask who runs the cluster for an upgrade")
    return Check("server", Status.OK, f"answers, Kubernetes {text}")


def who_am_i(client: KubeClient) -> str:
    """The name of the user of the credential; "" where the cluster does not say."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        status = client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", body).get("status") or {}
    except KubeApiError:
        return ""
    return str((status.get("userInfo") or {}).get("username") or "")


def _namespace(visit: _Visit) -> Iterator[Check]:
    try:
        found = visit.client.get(f"/api/v1/namespaces/{visit.namespace}")
    except KubeApiError as error:
        if error.status == 404:
            words = f"the cluster has no namespace `{visit.namespace}`"
            hint = _nearest_namespace(visit) or f"`kubectl create namespace {visit.namespace}`"
            yield Check("namespace", Status.FAIL, words, hint)
        return  # a namespace that may not be read may still be used
    level = str(((found.get("metadata") or {}).get("labels") or {}).get(ENFORCE) or "")
    yield check_security(visit.namespace, level, visit.options.security)


def check_security(namespace: str, level: str, security: str) -> Check:
    """The check of the namespace's Pod Security Standard against `security:` of the target. Pure."""
    demands = f"`{namespace}` demands the Pod Security Standard `{level}`"
    if level in ("", "privileged"):
        return Check("namespace", Status.OK, f"`{namespace}` takes pods of every kind")
    if level == "restricted" and security != "restricted":
        words = f"{demands}, and `security: {security}` of the target does not meet it"
        return Check("namespace", Status.FAIL, words, "set `security: restricted` in the target")
    return Check("namespace", Status.OK, f"{demands}, and gofer's pods meet it")


def _nearest_namespace(visit: _Visit) -> str | None:
    try:
        items = visit.client.get("/api/v1/namespaces").get("items") or ()
    except KubeApiError:
        return None
    return did_you_mean(visit.namespace, [str(one["metadata"]["name"]) for one in items])


def _rights(visit: _Visit) -> Iterator[Check]:
    """The rights in the namespace, then those over the cluster."""
    wanted = [*rights.RIGHTS, *(rights.KUEUE_RIGHTS if visit.options.queue else ())]
    missing = rights.read_missing(visit.client, visit.namespace, wanted)
    yield check_rights(missing, wanted, namespace=visit.namespace, user=visit.user)
    if _may_list_nodes(visit.client):
        return
    words = "you may not list nodes, so `gofer list nodes` and the check of what fits have no answer"
    role = rights.cluster_role_yaml(rights.CLUSTER_RIGHTS, user=_who(visit.user))
    yield Check("cluster rights", Status.WARN, words, f"{_APPLY}\n{role}")


def check_rights(
    missing: Sequence[rights.Right], wanted: Sequence[rights.Right], *, namespace: str, user: str
) -> Check:
    """The check of the rights; the hint is the Role that gives all of them. Pure."""
    if not missing:
        return Check("rights", Status.OK, f"all that gofer needs in `{namespace}`")
    needed = [right for right in missing if right.is_needed]
    said = "; ".join(
        f"{', '.join(right.verbs)} {right.resource} ({right.use})" for right in needed or missing
    )
    hint = f"{_APPLY}\n{rights.role_yaml(namespace, wanted, user=_who(user))}"
    status = Status.FAIL if needed else Status.WARN
    return Check("rights", status, f"in `{namespace}` you may not: {said}", hint)


def _who(user: str) -> str:
    return user or "YOUR-NAME"


def _may_list_nodes(client: KubeClient) -> bool:
    try:
        client.get("/api/v1/nodes", {"limit": "1"})
    except KubeApiError:
        return False
    return True


def _named_objects(visit: _Visit) -> Iterator[Check]:
    """The objects that the options of the target name. What may not be read is not checked."""
    options, core = visit.options, f"/api/v1/namespaces/{visit.namespace}"
    named = (
        ("service account", "service_account", options.service_account, f"{core}/serviceaccounts"),
        ("pull secret", "pull_secret", options.pull_secret, f"{core}/secrets"),
    )
    for what, key, name, path in named:
        if name and not _exists(visit.client, f"{path}/{name}"):
            words = f"the namespace `{visit.namespace}` has no {what} `{name}`"
            yield Check(what, Status.FAIL, words, f"make it, or correct `{key}:` of the target")
    if options.priority_class and not options.queue:
        path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{options.priority_class}"
        if not _exists(visit.client, path):
            words = f"the cluster has no PriorityClass `{options.priority_class}`"
            yield Check("priority class", Status.FAIL, words, "`kubectl get priorityclasses` lists them")


def _exists(client: KubeClient, path: str) -> bool:
    """False only where the cluster says that there is no such object."""
    try:
        client.get(path)
    except KubeApiError as error:
        return error.status != 404
    return True


def _capacity(visit: _Visit) -> Iterator[Check]:
    survey = Survey.read(visit.client, visit.namespace, gpu_resource=visit.options.gpu_resource)
    yield check_quota(survey, visit.namespace)
    yield from check_gpus(survey, visit.options.gpus_per_node)
    if visit.options.queue:
        yield check_queue(survey.queues, visit.options.queue, visit.namespace)


def check_quota(survey: Survey, namespace: str) -> Check:
    """The check of the quotas of the namespace: what is nearly used up. Pure."""
    full, count = [], 0
    for quota in survey.quotas:
        status = quota.get("status") or {}
        used = status.get("used") or {}
        for name, limit in (status.get("hard") or {}).items():
            count += 1
            if parse_quantity(used.get(name)) >= _NEARLY * parse_quantity(limit):
                full.append(f"{name_resource(name)} {used.get(name)} of {limit}")
    if full:
        words = f"nearly used up: {', '.join(full)}"
        return Check("quota", Status.WARN, words, f"runs wait until others in `{namespace}` have ended")
    if not survey.sees_quotas:
        return Check("quota", Status.OK, "you may not list the quotas, so they are not known")
    limits = "limit" if count == 1 else "limits"
    return Check("quota", Status.OK, f"{count} {limits}, none nearly used up" if count else "none")


def check_gpus(survey: Survey, gpus_per_node: int) -> Iterator[Check]:
    """The checks of the nodes and their GPUs. Pure."""
    nodes = nodes_of(survey)
    if nodes is None:
        return
    down = [node for node in nodes if node.state == "down"]
    if down:
        names = ", ".join(node.name for node in down[:5]) + (", …" if down[5:] else "")
        words = f"{len(down)} of {count_nodes(len(nodes))} take no pods: {names}"
        yield Check("nodes", Status.WARN, words, "`gofer list nodes` says why")
    with_gpus = [node for node in nodes if node.gpus]
    most = max((node.gpus for node in with_gpus), default=0)
    types = ", ".join(sorted({node.gpu_type or "of no known type" for node in with_gpus}))
    if not with_gpus:
        status = Status.WARN if gpus_per_node else Status.OK
        words = f"none of the {count_nodes(len(nodes))} has GPUs of the resource `{survey.gpu_resource}`"
        hint = "the device plugin may not run, or `gpu_resource:` has another name" if gpus_per_node else None
        yield Check("gpus", status, words, hint)
    elif gpus_per_node > most:
        words = f"`gpus_per_node: {gpus_per_node}`, and no node has more than {most}"
        yield Check("gpus", Status.WARN, words, f"set `gpus_per_node: {most}` in the target")
    else:
        yield Check("gpus", Status.OK, f"{count_nodes(len(with_gpus))} with up to {most} GPUs: {types}")
    if with_gpus and not any(node.gpu_type for node in with_gpus):
        words = f"no label names the type of GPU ({', '.join(GPU_LABELS[:2])}, …), so `--gpu-type` finds none"
        yield Check("gpu types", Status.WARN, words, "NVIDIA's GPU feature discovery sets such labels")


def check_queue(queues: Sequence[Json], name: str, namespace: str) -> Check:
    """The check of the queue that the target names. Pure."""
    known = {str((one.get("metadata") or {}).get("name")): one for one in queues}
    if name not in known:
        words = f"`{namespace}` has no queue `{name}`, or you may not list queues"
        hint = did_you_mean(name, known) or f"`kubectl get localqueues -n {quote_word(namespace)}`"
        return Check("queue", Status.FAIL, words, hint)
    status = known[name].get("status") or {}
    active: Json = next((one for one in status.get("conditions") or () if one.get("type") == "Active"), {})
    if active.get("status") == "False":
        return Check(
            "queue",
            Status.FAIL,
            f"`{name}` admits nothing: {active.get('message')}",
            "ask who runs the cluster",
        )
    counts = (
        f"{status.get('pendingWorkloads') or 0} wait, {status.get('admittedWorkloads') or 0} are admitted"
    )
    return Check("queue", Status.OK, f"`{name}`: {counts}")
