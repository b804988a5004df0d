"""Kubernetes' words for Jobs and pods in gofer's: real samples, and what a test cluster cannot show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.kubernetes.kube_samples import VERSIONS, sample

from gofer.backends.kubernetes.state.job_facts import JobFacts, PodFacts, decode, encode, read_job, read_pod
from gofer.backends.kubernetes.state.start_troubles import Patience
from gofer.backends.kubernetes.state.states import fault_of, observe
from gofer.core.states import Reason, State
from gofer.model.run import Observation

NOW = 2_000_000_000.0
# The state, the reason, the exit code, and words of the detail, for each recorded case.
SEEN: dict[str, tuple[State, Reason | None, int | None, str]] = {
    "running": (State.RUNNING, None, None, ""),
    "two-nodes": (State.RUNNING, None, None, ""),
    "half-of-two": (
        State.STARTING,
        None,
        None,
        "3 of 4 nodes are ready; each of the 3 nodes has too few free GPUs",
    ),
    "succeeded": (State.SUCCEEDED, None, None, ""),
    "exit-3": (State.FAILED, Reason.EXIT_CODE, 3, "its container exited with 3: no such file"),
    "settled": (State.FAILED, Reason.EXIT_CODE, 3, ""),
    "image-missing": (
        State.STARTING,
        None,
        None,
        "`registry.invalid/team/train:2` cannot be pulled on node node",
    ),
    "image-absent": (State.FAILED, Reason.SETUP, None, "not on the node, and `pull_policy` is Never"),
    "image-name": (State.FAILED, Reason.SETUP, None, "the name of its image is not valid"),
    "no-python": (
        State.STARTING,
        None,
        None,
        "the image has no such program; set `python:` or `python_image:`",
    ),
    "secret-missing": (State.STARTING, None, None, "a Secret that its pod names is incomplete or missing"),
    "root-image": (State.STARTING, None, None, "the image runs as root; set `security: image`"),
    "volume-missing": (State.STARTING, None, None, "its container is being created"),
    "claim-missing": (State.QUEUED, None, None, "no PersistentVolumeClaim `absent`"),
    "too-many-gpus": (State.QUEUED, None, None, "no node is large enough, even when it is empty"),
    "no-such-node": (State.QUEUED, None, None, "none of the 3 nodes has the labels that the run asks for"),
    "gated": (State.QUEUED, None, None, "`SchedulingGated`"),
    "no-scheduler": (State.QUEUED, None, None, ""),
    "suspended": (State.PAUSED, None, None, "its Job is suspended"),
    "quota": (State.QUEUED, None, None, "Kubernetes has made no pod for it yet"),
    "pod-security": (State.QUEUED, None, None, "Kubernetes has made no pod for it yet"),
    "no-account": (State.QUEUED, None, None, "Kubernetes has made no pod for it yet"),
    "out-of-memory": (State.FAILED, Reason.OUT_OF_MEMORY, 137, "used all of its 64MiB of memory"),
    # On cgroup v1 the child alone is killed, and the container may end well.
    "child-out-of-memory": (State.SUCCEEDED, None, None, ""),
    "killed": (State.FAILED, Reason.SIGNAL, 137, "its container was killed"),
    "job-deadline": (State.FAILED, Reason.TIME_LIMIT, None, "its Job reached its deadline"),
    "pod-deadline": (State.FAILED, Reason.TIME_LIMIT, 137, "its pod reached its deadline"),
    "evicted": (State.QUEUED, Reason.PREEMPTED, None, "its node is being drained"),
    "preempted": (State.STARTING, Reason.PREEMPTED, None, "a pod of higher priority took its place"),
    "crashed-silent": (State.RUNNING, None, None, "has not answered for"),
    "crashed": (State.QUEUED, Reason.NODE_FAILURE, None, "and is given up"),
    "crashed-safe": (State.QUEUED, Reason.NODE_FAILURE, None, "another pod comes only when the node is back"),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SEEN)
def test_a_recorded_job_has_its_state(version: str, name: str) -> None:
    state, reason, exit_code, words = SEEN[name]
    recorded = sample(version, name)
    found = observe("run", recorded.facts, now=recorded.read_at)
    assert (found.state, found.reason, found.exit_code) == (state, reason, exit_code)
    assert words in (found.detail or "")
    assert found.detail is None or words


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SEEN)
def test_what_is_kept_between_commands_says_the_same_and_is_small(version: str, name: str) -> None:
    recorded = sample(version, name)
    kept = json.loads(json.dumps(encode(recorded.facts)))
    assert decode(kept) == recorded.facts
    assert kept["name"] == recorded.job["metadata"]["name"] and kept["row"] is None
    assert len(json.dumps(kept)) < 500 * (1 + len(recorded.pods))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_pod_above_its_own_limit_is_at_fault_and_one_on_a_full_node_is_not(version: str) -> None:
    evicted = [sample(version, name).facts.pods for name in ("disk-limit", "filled")]
    own, other = (next(pod for pod in pods if pod.reason == "Evicted") for pods in evicted)
    assert fault_of(own)[0] == Reason.EXIT_CODE and "exceeds the total limit" in fault_of(own)[1]
    assert fault_of(other)[0] == Reason.PREEMPTED and "MemoryPressure" in fault_of(other)[1]


def job(**given: Any) -> JobFacts:
    return JobFacts(name="run", created_at=NOW - 100.0, **given)


def seen(facts: JobFacts, *, later_s: float = 0.0) -> Observation:
    return observe("run", facts, now=NOW + later_s)


def pod(**given: Any) -> PodFacts:
    return PodFacts(**{"name": "p", "node": "n1", "created_at": NOW - 60.0, "phase": "Failed", **given})


@pytest.mark.parametrize(
    ("given", "reason", "words"),
    [
        ({"reason": "Evicted", "disruption": "TerminationByKubelet"}, Reason.PREEMPTED, "its node ended it"),
        ({"disruption": "PreemptionByScheduler"}, Reason.PREEMPTED, "higher priority"),
        ({"disruption": "EvictionByEvictionAPI"}, Reason.PREEMPTED, "drained"),
        ({"disruption": "DeletionByPodGC"}, Reason.NODE_FAILURE, "no longer exists"),
        ({"disruption": "DeletionByTaintManager"}, Reason.NODE_FAILURE, "did not answer"),
        ({"reason": "Terminated"}, Reason.PREEMPTED, "shut down"),
        ({"reason": "NodeShutdown"}, Reason.PREEMPTED, "shut down"),
        ({"reason": "NodeLost"}, Reason.NODE_FAILURE, "does not answer"),
        ({"reason": "OutOfnvidia.com/gpu"}, Reason.NODE_FAILURE, "had too little nvidia.com/gpu"),
        ({"reason": "OutOfcpu"}, Reason.NODE_FAILURE, "had too little cpu"),
        ({"reason": "UnexpectedAdmissionError"}, Reason.NODE_FAILURE, "refused"),
        ({"reason": "TopologyAffinityError"}, Reason.NODE_FAILURE, "refused"),
        ({"reason": "NodeAffinity"}, Reason.NODE_FAILURE, "refused"),
        ({"reason": "Marvellous"}, Reason.NODE_FAILURE, "`Marvellous`"),
        ({"ended": "ContainerStatusUnknown", "exit_code": 137}, Reason.NODE_FAILURE, "lost track"),
        ({"ended": "Unknown", "exit_code": 255}, Reason.NODE_FAILURE, "restarted while the container ran"),
        ({"ended": "OOMKilled", "exit_code": 137}, Reason.OUT_OF_MEMORY, "the node ran out of memory"),
        ({"ended": "OOMKilled", "exit_code": 137, "memory": "64Gi"}, Reason.OUT_OF_MEMORY, "64GiB"),
        ({"ended": "Error", "exit_code": 139}, Reason.SIGNAL, "signal 11"),
        ({"ended": "Error", "exit_code": 91}, Reason.EXIT_CODE, "the run failed"),
        ({"ended": "Error", "exit_code": 2, "output": "no disk"}, Reason.EXIT_CODE, "exited with 2: no disk"),
        ({"ended": "StartError", "exit_code": 128, "words": "exec format error"}, Reason.SETUP, "processor"),
        ({"reason": "Evicted", "words": "exceeds 20Gi"}, Reason.EXIT_CODE, "using too much (exceeds 20Gi)"),
    ],
)
def test_why_a_pod_did_not_succeed(given: dict[str, Any], reason: Reason, words: str) -> None:
    found, said = fault_of(pod(**given))
    assert (found, words in said) == (reason, True), said


@pytest.mark.parametrize(
    ("word", "reason", "words"),
    [
        ("DeadlineExceeded", Reason.TIME_LIMIT, "deadline"),
        ("BackoffLimitExceeded", Reason.NODE_FAILURE, "too often"),
        ("PodFailurePolicy", Reason.EXIT_CODE, "one of its pods failed"),
        ("FailedIndexes", Reason.EXIT_CODE, "some of its pods failed"),
        ("MaxFailedIndexesExceeded", Reason.EXIT_CODE, "too many"),
        ("Marvellous", Reason.EXIT_CODE, "Marvellous (because)"),
    ],
)
def test_a_job_that_failed_without_pods(word: str, reason: Reason, words: str) -> None:
    found = seen(job(end="Failed", end_reason=word, end_words="because", ended_at=NOW))
    assert (found.state, found.reason) == (State.FAILED, reason)
    assert words in (found.detail or "")
    assert found.ended_at == NOW


def test_a_job_whose_pods_were_taken_away_too_often_says_why_the_last_was() -> None:
    pods = (pod(disruption="EvictionByEvictionAPI"), pod(name="q", disruption="DeletionByPodGC"))
    found = seen(job(end="Failed", end_reason="BackoffLimitExceeded", pods=pods))
    assert found.reason == Reason.NODE_FAILURE
    assert (
        found.detail
        == "its pods ended or were taken away too often, at last because its node no longer exists"
    )


def test_the_first_pod_with_a_fault_of_its_own_explains_the_end() -> None:
    pods = (
        pod(disruption="EvictionByEvictionAPI", exit_code=143),
        pod(name="q", ended="Error", exit_code=7),
        pod(name="r", ended="Error", exit_code=143),
    )
    found = seen(job(end="Failed", end_reason="PodFailurePolicy", pods=pods))
    assert (found.reason, found.exit_code) == (Reason.EXIT_CODE, 7)


def written(state: State, reason: Reason | None = None, **given: Any) -> PodFacts:
    outcome = {"state": state.value, "reason": reason and reason.value, "detail": None, "exit_code": 1}
    return pod(outcome={**outcome, "detail": given.pop("detail", None)}, **given)


def test_the_agent_is_believed_before_the_pod_and_the_job() -> None:
    ended = written(State.FAILED, Reason.OUT_OF_MEMORY, ended="Error", exit_code=91, detail="rank 3")
    found = seen(job(end="Failed", end_reason="PodFailurePolicy", pods=(ended,)))
    assert (found.state, found.reason, found.detail) == (State.FAILED, Reason.OUT_OF_MEMORY, "rank 3")
    # With `recovery: fast`, the Job is complete when the run is over, however it ended.
    found = seen(job(end="Complete", pods=(written(State.FAILED, Reason.EXIT_CODE),)))
    assert (found.state, found.reason, found.exit_code) == (State.FAILED, Reason.EXIT_CODE, 1)


def test_a_success_counts_for_a_job_that_is_complete() -> None:
    pods = (written(State.FAILED, Reason.NODE_FAILURE), written(State.SUCCEEDED, name="q"))
    assert seen(job(end="Complete", pods=pods)).state == State.SUCCEEDED


def test_of_several_ends_the_first_that_is_no_loss_of_a_node_counts() -> None:
    pods = (
        written(State.LOST, Reason.NODE_FAILURE, ended_at=NOW - 9.0),
        written(State.FAILED, Reason.EXIT_CODE, ended_at=NOW - 5.0, detail="first"),
        written(State.FAILED, Reason.SIGNAL, ended_at=NOW - 4.0, detail="second"),
    )
    assert seen(job(end="Failed", pods=pods)).detail == "first"


def test_an_end_that_the_agent_wrote_counts_before_the_job_has_it() -> None:
    facts = job(pods=(written(State.CANCELLED, Reason.USER),))
    assert seen(facts).state == State.CANCELLED
    assert seen(job(active=1, pods=facts.pods)).state != State.CANCELLED


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
def test_an_attempt_that_starts_again_is_no_end(state: State) -> None:
    assert seen(job(pods=(written(state, Reason.PREEMPTED, disruption="Marvellous"),))).state == State.QUEUED


@pytest.mark.parametrize(
    "text", ['{"state": 3}', '{"state": "odd"}', "{", "[1]", '{"state": "failed", "reason": "x"}']
)
def test_a_message_that_is_no_outcome_decides_nothing(text: str) -> None:
    status = {"phase": "Failed", "containerStatuses": [container(text)]}
    found = seen(read_job({"metadata": {"name": "run"}, "status": FAILED}, [{"status": status}]))
    assert (found.state, found.reason, found.exit_code) == (State.FAILED, Reason.EXIT_CODE, 4)


def container(message: str) -> dict[str, Any]:
    return {"name": "gofer", "state": {"terminated": {"exitCode": 4, "reason": "Error", "message": message}}}


FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}


def test_an_image_that_cannot_be_pulled_fails_when_the_patience_is_over() -> None:
    facts = job(active=1, pods=(pod(phase="Pending", waiting="ImagePullBackOff", words="x: not found"),))
    assert seen(facts).state == State.STARTING
    found = seen(facts, later_s=600.0)
    assert (found.state, found.reason) == (State.FAILED, Reason.SETUP)
    assert "there is no such image; correct `image:` (x: not found); tried for 11m" in (found.detail or "")
    assert not facts.is_over
    assert observe("run", facts, now=NOW, patience=Patience(image_s=1.0)).state == State.FAILED


def test_a_program_that_is_missing_fails_after_two_minutes_though_pods_come_and_go() -> None:
    failed = pod(ended="StartError", exit_code=128, created_at=NOW - 119.0, words="executable file not found")
    facts = job(active=1, pods=(failed, pod(name="q", phase="Pending", waiting="ContainerCreating")))
    assert seen(facts).state == State.STARTING
    assert seen(facts, later_s=2.0).reason == Reason.SETUP


@pytest.mark.parametrize("word", ["Marvellous", "ein Wort", "\x1b"])
def test_a_word_that_gofer_does_not_know_is_shown(word: str) -> None:
    found = seen(job(active=1, pods=(pod(phase="Pending", waiting=word),)))
    assert (found.state, found.detail) == (State.UNKNOWN, f"Kubernetes reports `{word}`")
    found = seen(job(active=1, pods=(pod(phase=word),)))
    assert (found.state, found.detail) == (State.UNKNOWN, f"Kubernetes reports the phase `{word}`")


def test_a_job_of_a_queue_waits_and_one_that_a_person_suspended_is_paused() -> None:
    assert seen(job(is_suspended=True, queue="research")).state == State.QUEUED
    assert seen(job(is_suspended=True)).state == State.PAUSED


def test_the_counts_of_the_job_say_the_state_where_its_pods_are_not_known() -> None:
    assert seen(job(active=2, ready=2, wanted=2, least=2)).state == State.RUNNING
    assert seen(job(active=2, ready=1, wanted=2, least=2)).state == State.QUEUED
    assert seen(job(active=2, ready=1, wanted=2, least=1)).state == State.RUNNING
    assert seen(job(end="SuccessCriteriaMet", active=1)).state == State.RUNNING
    assert "Kubernetes makes new ones" in (seen(job(failed=1)).detail or "")


def test_a_run_of_several_nodes_works_when_enough_of_them_do() -> None:
    working = pod(phase="Running", started_at=NOW)
    held = pod(
        name="q",
        phase="Pending",
        node="",
        held="Unschedulable",
        words="0/2 nodes are available: 2 Insufficient cpu.",
    )
    facts = job(active=2, wanted=2, least=2, pods=(working, held))
    assert (seen(facts).state, seen(facts).detail) == (
        State.STARTING,
        "1 of 2 nodes are ready; each of the 2 nodes has too few free CPUs",
    )
    assert seen(job(active=2, wanted=2, least=1, pods=(working, held))).state == State.RUNNING


@pytest.mark.parametrize(
    "odd", [{}, {"metadata": None, "spec": 3, "status": []}, {"metadata": {"labels": "x"}}]
)
def test_an_odd_object_has_facts_too(odd: dict[str, Any]) -> None:
    assert read_pod(odd).phase == ""
    assert read_job(odd, [odd]).wanted == 1
