"""Why a run waits on Kubernetes: real messages of the cluster, and the sentences that gofer makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from unit.kubernetes.kube_samples import VERSIONS, sample

from gofer.backends.base import Waiting
from gofer.backends.kubernetes.state import kueue
from gofer.backends.kubernetes.state.job_facts import JobFacts
from gofer.backends.kubernetes.state.scheduling import (
    explain_autoscaler,
    explain_refusal,
    explain_scheduling,
    parse_quantity,
    parse_scheduling,
)
from gofer.backends.kubernetes.state.wait_reasons import WaitFacts, explain

NODES = "gofer list nodes -t 'my lab'"
SHOW = "gofer target show 'my lab'"
# What `gofer why` says of each recorded case, and the first command to type.
SAID = {
    "too-many-gpus": (
        "no node is large enough, even when it is empty: it asks for more GPUs than a node has",
        NODES,
    ),
    "no-such-node": ("`node_selector:` and `gpu_type:`", NODES),
    "half-of-two": ("3 of 4 nodes are ready; each of the 3 nodes has too few free GPUs", NODES),
    "claim-missing": ("the namespace has no PersistentVolumeClaim `absent`", NODES),
    "gated": ("a scheduling gate holds its pod", SHOW),
    "no-scheduler": ("no scheduler has considered its pod for", SHOW),
    "quota": ("it can never start: the quota `gpus` of the namespace is too small", SHOW),
    "pod-security": ("the namespace demands the Pod Security Standard `restricted`", SHOW),
    "no-account": ("the namespace has no service account `absent`", SHOW),
    "image-missing": ("the node cannot reach the registry", SHOW),
    "root-image": ("the image runs as root; set `security: image`", SHOW),
    "secret-missing": ("a Secret that its pod names is incomplete or missing", SHOW),
    "volume-missing": (
        'a volume cannot be mounted on node node1 (MountVolume.SetUp failed for volume "data"',
        SHOW,
    ),
    "no-python": ("the image has no such program; set `python:` or `python_image:`", ""),
    "suspended": ("kubectl patch job suspended", ""),
    "crashed": ("has not answered for", NODES),
    "crashed-safe": ("another pod comes only when the node is back or removed", NODES),
    "preempted": ("a pod of higher priority took its place", ""),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SAID)
def test_a_recorded_job_says_why_it_waits(version: str, name: str) -> None:
    recorded = sample(version, name)
    found = explain(WaitFacts(recorded.facts, recorded.events, target="my lab"), now=recorded.read_at)
    words, command = SAID[name]
    assert found is not None and words in found.why
    assert found.next[:1] == ((command,) if command else ())


@pytest.mark.parametrize("name", ["running", "succeeded", "exit-3", "image-name", "job-deadline"])
def test_a_run_that_does_not_wait_has_nothing_to_say(name: str) -> None:
    recorded = sample(VERSIONS[0], name)
    assert explain(WaitFacts(recorded.facts, recorded.events), now=recorded.read_at) is None


# Messages of several versions of the scheduler; see kubernetes/pkg/scheduler/framework/types.go.
TAINTED = (
    "0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {sku: gpu}. "
    "preemption: 0/5 nodes are available: 2 Preemption is not helpful for scheduling, 3 No preemption "
    "victims found for incoming pod."
)
SEVERAL = (
    "0/4 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, "
    "1 node(s) were unschedulable, 2 Insufficient memory."
)
MESSAGES = {
    TAINTED: "of 5 nodes, 3 nodes have too few free GPUs and 2 nodes have the taint `sku=gpu`, which the run "
    "does not tolerate",
    SEVERAL: "of 4 nodes, 2 nodes have too little free memory, 1 node is not answering and 1 node is closed "
    "to new pods",
    "0/2 nodes are available: 1 node(s) had untolerated taint {a: b, c}, 1 Too many pods.": (
        "of 2 nodes, 1 node has the taint `a=b, c`, which the run does not tolerate and 1 node has as many "
        "pods as it may hold"
    ),
    "0/3 nodes are available: 3 node(s) had volume node affinity conflict.": (
        "each of the 3 nodes cannot reach a volume of the run"
    ),
    "0/1 nodes are available: 1 cannot allocate all claims.": (
        "of 1 node, 1 node has not the free devices that the run asks for"
    ),
    "0/3 nodes are available: 3 node(s) had untolerated taint(s).": (
        "each of the 3 nodes has a taint that the run does not tolerate"
    ),
    "0/3 nodes are available: 3 Marvellous.": "each of the 3 nodes reports `Marvellous`",
    "0/3 nodes are available.": "Kubernetes reports: 0/3 nodes are available.",
    "no nodes available to schedule pods": "the cluster has no nodes now",
    "something new": "Kubernetes reports: something new",
    "": "no node has taken it yet",
}


@pytest.mark.parametrize("message", MESSAGES)
def test_the_message_of_the_scheduler_in_plain_words(message: str) -> None:
    assert explain_scheduling(message) == MESSAGES[message]


def test_the_most_frequent_refusal_is_named_first() -> None:
    parsed = parse_scheduling(
        "0/900 nodes are available: 1 Insufficient cpu, 899 Insufficient nvidia.com/gpu."
    )
    assert parsed is not None and [one.nodes for one in parsed[1]] == [899, 1]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            'Error creating: pods "r-0-x" is forbidden: exceeded quota: team, requested: '
            "requests.nvidia.com/gpu=4,requests.memory=1Gi, used: requests.nvidia.com/gpu=8,"
            "requests.memory=2Gi, "
            "limited: requests.nvidia.com/gpu=8,requests.memory=64Gi",
            "the quota `team` of the namespace is used up (GPUs: 8 of 8 used, a pod of the run asks for 4; "
            "memory: 2Gi of 64Gi used, a pod of the run asks for 1Gi); ask who owns it",
        ),
        (
            'admission webhook "check.example.com" denied the request: no team label',
            "the cluster's check `check.example.com` refuses it: no team label",
        ),
        (
            'pods "x" is forbidden: no PriorityClass with name urgent was found',
            "the cluster has no PriorityClass `urgent`; correct `priority_class:` of the target",
        ),
        (
            'pods "x" is forbidden: failed quota: team: must specify limits.memory for: gofer',
            "the quota `team` demands that each pod asks for limits.memory for: gofer; set "
            "`--memory`, `--cpus` or `disk:`",
        ),
        ("Error creating: Internal error", "Kubernetes refuses its pods: Internal error"),
    ],
)
def test_why_kubernetes_makes_no_pod(message: str, words: str) -> None:
    assert explain_refusal(message).words == words


def test_an_old_refusal_says_nothing_of_a_pod_that_came_later() -> None:
    recorded = sample(VERSIONS[0], "too-many-gpus")
    old = {**sample(VERSIONS[0], "quota").events[-1], "lastTimestamp": "2020-01-01T00:00:00Z"}
    found = explain(WaitFacts(recorded.facts, [old, *recorded.events]), now=recorded.read_at)
    assert found is not None and "no node is large enough" in found.why


def test_what_an_autoscaler_does_is_added() -> None:
    recorded = sample(VERSIONS[0], "half-of-two")
    held = next(pod for pod in recorded.facts.pods if not pod.node)
    event = {
        "type": "Normal",
        "reason": "TriggeredScaleUp",
        "message": "pod triggered scale-up: [{gpu 2->4 (max: 8)}]",
        "involvedObject": {"kind": "Pod", "name": held.name},
        "lastTimestamp": "2026-11-19T10:00:00Z",
    }
    found = explain(WaitFacts(recorded.facts, [event]), now=recorded.read_at)
    assert found is not None and "the autoscaler is adding nodes: [{gpu 2->4 (max: 8)}]" in found.why
    no = explain_autoscaler("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")
    assert no == "the autoscaler adds no node: 1 max node group size reached"
    assert explain_autoscaler("Scheduled", "x") is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", 0.5),
        ("4Ki", 4096.0),
        ("64Gi", 2.0**36),
        ("8", 8.0),
        ("1e3", 1000.0),
        ("2k", 2000.0),
        ("x", 0.0),
    ],
)
def test_quantities(text: str, number: float) -> None:
    assert parse_quantity(text) == number


NO_FLAVOR = "couldn't assign flavors to pod set main"
HELD = JobFacts(name="run", is_suspended=True, queue="research")


def workload(
    name: str = "job-run", *, made: str = "2026-11-19T10:00:00Z", priority: int = 0, **status: Any
) -> Any:
    conditions = [{"type": key, **value} for key, value in status.pop("conditions", {}).items()]
    return {
        "metadata": {"name": name, "creationTimestamp": made},
        "spec": {"queueName": "research", "priority": priority, "active": status.pop("active", True)},
        "status": {"conditions": conditions, **status},
    }


def no_quota(message: str, reason: str = "Pending") -> dict[str, Any]:
    return {"QuotaReserved": {"status": "False", "reason": reason, "message": message}}


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        (
            no_quota(
                f"{NO_FLAVOR}: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed"
            ),
            "the GPUs of the flavor `h100` in the queue `research` are in use (couldn't",
        ),
        (
            no_quota(
                f"{NO_FLAVOR}: insufficient quota for cpu in flavor f, request > maximum capacity (64 > 32)"
            ),
            "it can never be admitted: it asks for more than the queue `research` has",
        ),
        (
            no_quota("LocalQueue research doesn't exist", "Inadmissible"),
            "the queue `research` admits nothing",
        ),
        (no_quota("x", "WaitingForPodsReady"), "until the jobs before it have started"),
        ({"QuotaReserved": {"status": "True"}}, "is about to let it go on"),
        (
            {"Evicted": {"status": "True", "reason": "Preempted"}, **no_quota("")},
            "Kueue gave its place to a job of higher priority; now it waits in the queue `research`",
        ),
        ({"Evicted": {"status": "True", "reason": "Marvellous"}, **no_quota("")}, "(`Marvellous`)"),
    ],
)
def test_a_job_that_kueue_holds(conditions: dict[str, Any], words: str) -> None:
    found = explain(WaitFacts(HELD, workload=workload(conditions=conditions), target="lab"), now=0.0)
    assert found is not None and words in found.why


def test_a_check_of_the_queue_that_is_not_ready() -> None:
    waits = workload(
        conditions={"QuotaReserved": {"status": "True"}},
        admissionChecks=[{"name": "nodes", "state": "Pending", "message": "provisioning"}],
    )
    found = kueue.explain_workload(waits, "research")
    assert found is not None and found.words.endswith("waits for a check: `nodes` is Pending (provisioning)")


def test_a_queue_that_nobody_knows() -> None:
    found = explain(WaitFacts(HELD, target="lab"), now=0.0)
    assert found == Waiting(
        "Kueue has not considered it yet, or does not know the queue `research`",
        next=("gofer target show lab",),
    )


def test_the_place_in_line_goes_by_priority_and_age() -> None:
    first, mine = workload("a", made="2026-11-19T09:00:00Z"), workload("b")
    urgent, later = (
        workload("c", made="2026-11-19T11:00:00Z", priority=9),
        workload("d", made="2026-11-19T11:00:00Z"),
    )
    admitted = workload("e", made="2026-11-19T08:00:00Z", conditions={"QuotaReserved": {"status": "True"}})
    assert kueue.count_ahead([first, mine, urgent, later, admitted], "b") == 2
    assert kueue.count_ahead([first], "b") is None
    found = explain(WaitFacts(HELD, workload=workload(conditions=no_quota("")), ahead=2), now=0.0)
    assert (
        found is not None and found.ahead == 2 and found.why.endswith("; 2 runs of this namespace come first")
    )


def test_kueue_gives_a_job_up() -> None:
    evicted = {"status": "True", "reason": "DeactivatedDueToRequeuingLimitExceeded", "message": "limit"}
    gone = workload(active=False, conditions={"Evicted": evicted})
    found = kueue.explain_workload(gone, "research")
    assert found is not None and not found.can_start
    assert found.words == "Kueue gave it up, so it can never start (limit)"
