"""The messages of Kubernetes' scheduler, of its quotas and of its autoscalers, in plain words. Pure.

The scheduler writes one sentence about all nodes: `0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2
node(s) had untolerated taint {sku: gpu}. preemption: …`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gofer.text import count_nodes

_TOTAL = re.compile(r"^(\d+)/(\d+) nodes are available(?:: |\.|$)")
_PREEMPTION = re.compile(r"\s*(?:no new claims to deallocate, )?preemption: (.*)$", re.S)
# Since 1.30 the scheduler says so of a node that is too small even when it is empty.
_USELESS = re.compile(r"(\d+) Preemption is not helpful")
_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
# Commas also stand within a reason; only before a number do they separate two.
_BETWEEN = re.compile(r", (?=\d+ )")
_COUNTED = re.compile(r"(\d+) (.*)", re.S)
_TAINT = re.compile(r"taint(?:\(s\))? \{([^:}]*):? ?([^}]*)\}")
_GPU = re.compile(r"^(?:nvidia\.com/(?:gpu|mig)|amd\.com/gpu|gpu\.intel\.com|habana\.ai)")
_QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.*?), used: (?P<used>.*?), limited: (?P<hard>.*)$"
)
_UNSET = re.compile(r"failed quota: (?P<name>[^:]+): must specify (?P<rest>.*)$")
_POD_SECURITY = re.compile(r'violates PodSecurity "(?P<level>[^":]+)[^"]*": (?P<rest>.*)$', re.S)
_WEBHOOK = re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request: (?P<rest>.*)$', re.S)
_ACCOUNT = re.compile(r'serviceaccount "(?P<name>[^"]+)" not found')
_PRIORITY = re.compile(r"no PriorityClass with name (?P<name>\S+) was found")
_SCALED = re.compile(r"triggered scale-up: (?P<groups>.*)$")

# Taints that Kubernetes itself sets, by their key.
_STATES_OF_NODES = {
    "node.kubernetes.io/unreachable": "not answering",
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unschedulable": "closed to new pods",
    "node.kubernetes.io/memory-pressure": "short of memory",
    "node.kubernetes.io/disk-pressure": "short of disk",
    "node.kubernetes.io/pid-pressure": "short of process ids",
    "node.kubernetes.io/network-unavailable": "without a network",
    "node.cloudprovider.kubernetes.io/uninitialized": "being set up",
    "node.cloudprovider.kubernetes.io/shutdown": "shut down",
    "ToBeDeletedByClusterAutoscaler": "about to be removed by the autoscaler",
    "node-role.kubernetes.io/control-plane": "for the control plane",
    "node-role.kubernetes.io/master": "for the control plane",
}
_OTHER = (
    ("didn't match Pod's node affinity/selector", "does not have the labels that the run asks for"),
    ("didn't match pod topology spread", "would break the spread that the run asks for"),
    ("didn't match pod anti-affinity", "may not hold two pods of this kind"),
    ("didn't match pod affinity", "is not beside the pods that the run asks for"),
    ("volume node affinity conflict", "cannot reach a volume of the run"),
    ("didn't match PersistentVolume's node affinity", "cannot reach a volume of the run"),
    ("didn't find available persistent volumes", "has no volume for a claim of the run"),
    ("exceed max volume count", "has as many volumes as it can hold"),
    ("Too many pods", "has as many pods as it may hold"),
    ("were unschedulable", "is closed to new pods"),
    ("were not ready", "is not ready"),
    ("didn't have free ports", "has no free port for it"),
    ("cannot allocate all claims", "has not the free devices that the run asks for"),
)


class RefusedNodes(NamedTuple):
    """`nodes` nodes that cannot take a pod. `words` follow `2 nodes …`; `kind` is capacity, taint, labels,
    node or other.
    """

    nodes: int
    words: str
    kind: str


class Refusal(NamedTuple):
    """Why Kubernetes makes no pod. `can_start` is False where waiting does not help."""

    words: str
    can_start: bool = False


def parse_scheduling(message: str) -> tuple[int, list[RefusedNodes]] | None:
    """The number of nodes, and why they refuse the pod, the most frequent first; None for other messages."""
    text = _PREEMPTION.sub("", message.strip())
    total = _TOTAL.match(text)
    if not total:
        return None
    found = []
    for part in _BETWEEN.split(text[total.end() :].rstrip(". ")):
        counted = _COUNTED.match(part)
        if counted:
            words, kind = _explain(counted[2].strip())
            found.append(RefusedNodes(int(counted[1]), words, kind))
    return int(total[2]), sorted(found, key=lambda one: -one.nodes)


def explain_scheduling(message: str) -> str:
    """Why no node takes a pod; Kubernetes' own words for a message of another form."""
    if message.startswith("no nodes available"):
        return "the cluster has no nodes now"
    claim = _CLAIM.search(message)
    if claim:
        return f"the namespace has no PersistentVolumeClaim `{claim[1]}`"
    parsed = parse_scheduling(message)
    if parsed is None or not parsed[1]:
        return f"Kubernetes reports: {message}" if message else "no node has taken it yet"
    total, found = parsed
    if len(found) == 1 and found[0].nodes == total and total > 1:
        return _explain_all(total, found[0], message)
    said = [f"{count_nodes(one.nodes)} {plural_words(one.words, one.nodes)}" for one in found]
    return f"of {count_nodes(total)}, " + " and ".join(
        [*([", ".join(said[:-1])] if said[1:] else []), said[-1]]
    )


def _explain_all(total: int, refused: RefusedNodes, message: str) -> str:
    """The words where all nodes refuse the pod for the same reason."""
    if refused.words.startswith("does not have "):
        return f"none of the {count_nodes(total)} has {refused.words.removeprefix('does not have ')}"
    useless = _USELESS.search(message)
    if refused.kind == "capacity" and useless and int(useless[1]) == total:
        resource = refused.words.rpartition("free ")[2]
        return f"no node is large enough, even when it is empty: it asks for more {resource} than a node has"
    return f"each of the {count_nodes(total)} {refused.words}"


def kinds_of(message: str) -> set[str]:
    """The kinds of refusal in a message of the scheduler."""
    parsed = parse_scheduling(message)
    return {one.kind for one in parsed[1]} if parsed else set()


def explain_refusal(message: str) -> Refusal:
    """Why Kubernetes refuses to make a pod: the message of an event FailedCreate, or of a dry run."""
    quota = _QUOTA.search(message)
    if quota:
        return _explain_quota(quota)
    security = _POD_SECURITY.search(message)
    if security:
        words = f"the namespace demands the Pod Security Standard `{security['level']}`: {security['rest']}"
        return Refusal(f"{words}; set `security: restricted` in the target, without a `pod:` against it")
    webhook = _WEBHOOK.search(message)
    if webhook:
        return Refusal(f"the cluster's check `{webhook['name']}` refuses it: {webhook['rest']}")
    account = _ACCOUNT.search(message)
    if account:
        words = f"the namespace has no service account `{account['name']}`"
        return Refusal(f"{words}; correct `service_account:` of the target")
    priority = _PRIORITY.search(message)
    if priority:
        words = f"the cluster has no PriorityClass `{priority['name']}`"
        return Refusal(f"{words}; correct `priority_class:` of the target")
    unset = _UNSET.search(message)
    if unset:
        words = f"the quota `{unset['name']}` demands that each pod asks for {unset['rest'].strip()}"
        return Refusal(f"{words}; set `--memory`, `--cpus` or `disk:`")
    return Refusal(f"Kubernetes refuses its pods: {message.removeprefix('Error creating: ')}")


def explain_autoscaler(reason: str, message: str) -> str | None:
    """What an autoscaler does about a pod that waits; None for events of others."""
    if reason == "TriggeredScaleUp":
        groups = _SCALED.search(message)
        return "the autoscaler is adding nodes" + (f": {groups['groups']}" if groups else "")
    if reason in ("Nominated", "NodeClaimCreated"):
        return f"the autoscaler is adding a node ({message})"
    if reason == "NotTriggerScaleUp":
        rest = message.partition(": ")[2] or message
        return f"the autoscaler adds no node: {rest}"
    return None


def parse_amounts(text: str) -> dict[str, str]:
    """`requests.nvidia.com/gpu=8,pods=3` as a mapping."""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): value.strip() for name, _, value in pairs}


def name_resource(name: str) -> str:
    """`requests.nvidia.com/gpu` as `GPUs`; other names as they are."""
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if _GPU.match(plain):
        return "GPUs"
    return {"cpu": "CPUs", "memory": "memory", "ephemeral-storage": "disk"}.get(plain, plain)


def _explain(reason: str) -> tuple[str, str]:
    short = re.match(r"Insufficient (\S+)", reason)
    if short:
        return (
            f"has too {'little' if _is_amount(short[1]) else 'few'} free {name_resource(short[1])}",
            "capacity",
        )
    taint = _TAINT.search(reason)
    if taint:
        return explain_taint(taint[1].strip(), taint[2].strip())
    if "untolerated taint" in reason:  # since 1.34 without the taint
        return "has a taint that the run does not tolerate", "taint"
    for part, words in _OTHER:
        if part in reason:
            return words, "labels" if "labels" in words else "node" if "closed" in words else "other"
    return f"reports `{reason}`", "other"


def explain_taint(key: str, value: str) -> tuple[str, str]:
    """The words for a node with this taint, and the kind of refusal."""
    if key in _STATES_OF_NODES:
        return f"is {_STATES_OF_NODES[key]}", "node"
    shown = f"{key}={value}" if value else key
    return f"has the taint `{shown}`, which the run does not tolerate", "taint"


def _is_amount(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage")


_PLURALS: Sequence[tuple[str, str]] = (
    ("has ", "have "),
    ("is ", "are "),
    ("does ", "do "),
    ("reports ", "report "),
)


def plural_words(words: str, count: int) -> str:
    """`has no GPUs` as `have no GPUs` for several nodes."""
    if count == 1:
        return words
    return next((many + words[len(one) :] for one, many in _PLURALS if words.startswith(one)), words)


def _explain_quota(found: re.Match[str]) -> Refusal:
    asked, used, hard = (parse_amounts(found[key]) for key in ("asked", "used", "hard"))
    said, can_start = [], True
    for name, limit in hard.items():
        use = f"{used.get(name, '0')} of {limit} used"
        said.append(f"{name_resource(name)}: {use}, a pod of the run asks for {asked.get(name)}")
        can_start = can_start and not _exceeds(asked.get(name, "0"), limit)
    said_all = f"({'; '.join(said)})"
    if can_start:
        return Refusal(
            f"the quota `{found['name']}` of the namespace is used up {said_all}; ask who owns it",
            can_start=True,
        )
    return Refusal(
        f"it can never start: the quota `{found['name']}` of the namespace is too small {said_all}"
    )


_UNITS: Mapping[str, float] = {
    "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "": 1.0,
}  # fmt: skip
_QUANTITY = re.compile(r"([0-9.]+(?:[eE][+-]?\d+)?)([kKMGTPm]?i?)")


def parse_quantity(text: object) -> float:
    """The number in a quantity of Kubernetes: `500m` is 0.5, `64Gi` is 2**36. 0 for no quantity."""
    found = _QUANTITY.fullmatch(str(text or "0").strip())
    return float(found[1]) * _UNITS.get(found[2], 1.0) if found else 0.0


def _exceeds(asked: str, limit: str) -> bool:
    return parse_quantity(asked) > parse_quantity(limit)
