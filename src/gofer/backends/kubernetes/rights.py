"""The rights that gofer needs in a namespace, which of them a credential lacks, and the Role that gives them.

`read_missing` asks the cluster and blocks; everything else is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.text import slug

if TYPE_CHECKING:
    from gofer.transport.kubernetes.client import KubeClient

Json = Mapping[str, Any]


class Right(NamedTuple):
    """`verbs` on a kind of object. `use` is what gofer does with them; a right that is not `is_needed` makes
    more answers possible. `is_everywhere`: over the whole cluster, not in one namespace.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    use: str
    is_needed: bool = True
    is_everywhere: bool = False


RIGHTS = (
    Right("batch", "jobs", ("create", "get", "list", "watch", "patch", "delete"), "runs are Jobs"),
    Right("", "pods", ("list", "watch", "delete", "deletecollection"), "states, and the end of a run"),
    Right("", "pods", ("create",), "checks before a submission", is_needed=False),
    Right("", "secrets", ("create", "get", "list", "patch", "delete"), "what a run is given"),
    Right("", "configmaps", ("create", "get", "list", "delete"), "the agent"),
    Right("", "pods/log", ("get",), "logs while a run works", is_needed=False),
    Right("", "pods/exec", ("create", "get"), "`gofer ssh`", is_needed=False),
    Right("", "events", ("list",), "`gofer why`", is_needed=False),
    Right("", "resourcequotas", ("list",), "`gofer target show`", is_needed=False),
)
KUEUE_RIGHTS = (
    Right("kueue.x-k8s.io", "workloads", ("list",), "`gofer why` of a run in a queue", is_needed=False),
    Right("kueue.x-k8s.io", "localqueues", ("list",), "`gofer target show`", is_needed=False),
)
CLUSTER_RIGHTS = (
    Right("", "nodes", ("list",), "`gofer list nodes`", is_needed=False, is_everywhere=True),
    Right("", "pods", ("list",), "how full the nodes are", is_needed=False, is_everywhere=True),
)


def read_missing(client: KubeClient, namespace: str, rights: Sequence[Right]) -> list[Right]:
    """The rights that the credential lacks, each with the verbs that are missing. One request, and one more
    for each verb that a cluster without a complete answer does not list. Errors are those of the client.
    """
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    status = client.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body).get("status") or {}
    lacking = find_missing(status.get("resourceRules") or (), rights)
    if not status.get("incomplete"):
        return lacking
    # An authorizer outside the cluster, such as that of a cloud, does not list its rules; it answers for one.
    found = []
    for right in lacking:
        verbs = tuple(verb for verb in right.verbs if not _may(client, namespace, right, verb))
        if verbs:
            found.append(right._replace(verbs=verbs))
    return found


def _may(client: KubeClient, namespace: str, right: Right, verb: str) -> bool:
    resource, _, part = right.resource.partition("/")
    asked = {"verb": verb, "group": right.group, "resource": resource, "subresource": part}
    if not right.is_everywhere:
        asked["namespace"] = namespace
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = client.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool((answer.get("status") or {}).get("allowed"))


def find_missing(rules: Iterable[Json], rights: Sequence[Right]) -> list[Right]:
    """The rights that the rules do not give. Rules for objects of certain names do not count."""
    known = [rule for rule in rules if not rule.get("resourceNames")]
    found = []
    for right in rights:
        verbs = tuple(verb for verb in right.verbs if not any(_gives(rule, right, verb) for rule in known))
        if verbs:
            found.append(right._replace(verbs=verbs))
    return found


def _gives(rule: Json, right: Right, verb: str) -> bool:
    return (
        _has(rule.get("apiGroups"), right.group)
        and (_has(rule.get("resources"), right.resource) or _has_part(rule.get("resources"), right.resource))
        and _has(rule.get("verbs"), verb)
    )


def _has(known: Sequence[str] | None, word: str) -> bool:
    return word in (known or ()) or "*" in (known or ())


def _has_part(known: Sequence[str] | None, resource: str) -> bool:
    """Whether `*/exec` gives a part such as `pods/exec`."""
    part = resource.partition("/")[2]
    return bool(part) and f"*/{part}" in (known or ())


def role_yaml(namespace: str, rights: Sequence[Right], *, user: str) -> str:
    """A Role with these rights in the namespace and its binding to `user`, for `kubectl apply -f -`."""
    return "\n---\n".join([_role("Role", rights, namespace), _binding("Role", user, namespace)])


def cluster_role_yaml(rights: Sequence[Right], *, user: str) -> str:
    """A ClusterRole with these rights and its binding to `user`."""
    return "\n---\n".join([_role("ClusterRole", rights), _binding("ClusterRole", user)])


def _role(kind: str, rights: Sequence[Right], namespace: str = "") -> str:
    lines = ["apiVersion: rbac.authorization.k8s.io/v1", f"kind: {kind}", _metadata(namespace), "rules:"]
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource), []).extend(right.verbs)
    for (group, resource), known in verbs.items():
        shown = ", ".join(dict.fromkeys(known))
        lines.append(f'- {{apiGroups: ["{group}"], resources: ["{resource}"], verbs: [{shown}]}}')
    return "\n".join(lines)


def _binding(kind: str, user: str, namespace: str = "") -> str:
    lines = [
        "apiVersion: rbac.authorization.k8s.io/v1",
        f"kind: {kind}Binding",
        # Each person has a binding, so that one does not replace that of another.
        _metadata(namespace, f"gofer-{slug(user)}"),
        f"roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: gofer}}",
        f"subjects: [{_subject(user)}]",
    ]
    return "\n".join(lines)


def _subject(user: str) -> str:
    """A user, or the service account that a name such as `system:serviceaccount:runs:ci` stands for."""
    parts = user.split(":")
    if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]:
        return f"{{kind: ServiceAccount, namespace: {parts[2]}, name: {parts[3]}}}"
    name = user.replace("\\", "\\\\").replace('"', '\\"')
    return f'{{apiGroup: rbac.authorization.k8s.io, kind: User, name: "{name}"}}'


def _metadata(namespace: str, name: str = "gofer") -> str:
    return f"metadata: {{name: {name}{f', namespace: {namespace}' if namespace else ''}}}"
