"""Jobs that gofer did not start: plain ones, and those of operators, in the shapes of their documents."""

from __future__ import annotations

from typing import Any

import pytest
from unit.kubernetes.kube_samples import VERSIONS, sample

from gofer.backends.base import JobFilter, ServiceJob
from gofer.backends.kubernetes.jobs import OPERATORS, fits, read_foreign_job, read_plain_job
from gofer.core.states import State

BY_KIND = {operator.kind: operator for operator in OPERATORS}
META = {"name": "tune", "creationTimestamp": "2026-11-19T10:00:00Z", "labels": {"team": "vision"}}
POD = {
    "spec": {
        "containers": [{"command": ["python", "a b.py"], "resources": {"limits": {"nvidia.com/gpu": 4}}}]
    }
}


def read(kind: str, spec: dict[str, Any], status: dict[str, Any]) -> ServiceJob:
    return read_foreign_job({"metadata": META, "spec": spec, "status": status}, BY_KIND[kind])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_job(version: str) -> None:
    recorded = sample(version, "half-of-two")
    found = read_plain_job(recorded.job, now=recorded.read_at)
    assert (found.name, found.state, found.status, found.nodes, found.gpus) == (
        "half-of-two",
        State.QUEUED,
        "Running",
        4,
        16,
    )
    assert found.is_ours and found.user == "ada"
    assert found.command.startswith("python3 -u -c")
    ended = sample(version, "exit-3")
    failed = read_plain_job(ended.job, now=ended.read_at)
    assert (failed.state, failed.status) == (State.FAILED, "Failed")
    assert "backoff limit" in failed.error and failed.ended_at is not None


def test_a_job_of_gofer_shows_the_command_of_the_person() -> None:
    labels = {"app.kubernetes.io/managed-by": "gofer"}
    meta = {"name": "r", "labels": labels, "annotations": {"gofer.run/command": "python train.py"}}
    assert read_plain_job({"metadata": meta, "spec": {"template": POD}}, now=0.0).command == "python train.py"
    foreign = {"name": "r", "annotations": meta["annotations"]}
    assert (
        read_plain_job({"metadata": foreign, "spec": {"template": POD}}, now=0.0).command == "python 'a b.py'"
    )


def test_a_job_that_gofer_stopped_is_cancelled() -> None:
    ended = {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}
    for notes, state in (({}, State.FAILED), ({"gofer.run/stopped-at": "1"}, State.CANCELLED)):
        found = read_plain_job({"metadata": {"name": "r", "annotations": notes}, "status": ended}, now=0.0)
        assert found.state == state


def conditions(**words: str) -> dict[str, Any]:
    return {"conditions": [{"type": key, "status": value} for key, value in words.items()]}


KUBEFLOW = {
    "pytorchReplicaSpecs": {
        "Master": {"replicas": 1, "template": POD},
        "Worker": {"replicas": 3, "template": POD},
    }
}
TRAINER = {
    "trainer": {
        "numNodes": 2,
        "command": ["torchrun", "x.py"],
        "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}},
    }
}
RAY = {
    "entrypoint": "python tune.py --trials 8",
    "rayClusterSpec": {
        "headGroupSpec": {"template": {"spec": {}}},
        "workerGroupSpecs": [{"replicas": 2, "template": POD}],
    },
}
VOLCANO = {"tasks": [{"replicas": 2, "template": POD}, {"template": POD}]}


@pytest.mark.parametrize(
    ("kind", "spec", "nodes", "gpus", "command"),
    [
        ("PyTorchJob", KUBEFLOW, 4, 16, "python 'a b.py'"),
        ("TrainJob", TRAINER, 2, 16, "torchrun x.py"),
        ("RayJob", RAY, 3, 8, "python tune.py --trials 8"),
        ("VolcanoJob", VOLCANO, 3, 12, "python 'a b.py'"),
    ],
)
def test_the_shape_of_an_operators_job(
    kind: str, spec: dict[str, Any], nodes: int, gpus: int, command: str
) -> None:
    found = read(kind, spec, {})
    assert (found.name, found.nodes, found.gpus, found.command) == (
        f"{kind.lower()}/tune",
        nodes,
        gpus,
        command,
    )
    assert found.state == State.QUEUED and not found.is_ours and found.tags == {"team": "vision"}


@pytest.mark.parametrize(
    ("kind", "status", "state", "word"),
    [
        ("PyTorchJob", conditions(Created="True", Running="True"), State.RUNNING, "Running"),
        ("PyTorchJob", conditions(Running="False", Succeeded="True"), State.SUCCEEDED, "Succeeded"),
        ("PyTorchJob", conditions(Failed="True"), State.FAILED, "Failed"),
        ("TrainJob", {"jobsStatus": [{"active": 1}]}, State.RUNNING, "Running"),
        ("TrainJob", conditions(Complete="True"), State.SUCCEEDED, "Complete"),
        ("TrainJob", conditions(Suspended="True"), State.PAUSED, "Suspended"),
        ("RayJob", {"jobDeploymentStatus": "Initializing"}, State.STARTING, "Initializing"),
        (
            "RayJob",
            {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
            State.SUCCEEDED,
            "Complete",
        ),
        ("RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, State.CANCELLED, "Complete"),
        ("RayJob", {"jobDeploymentStatus": "Marvellous"}, State.UNKNOWN, "Marvellous"),
        ("VolcanoJob", {"state": {"phase": "Aborted"}}, State.CANCELLED, "Aborted"),
        ("VolcanoJob", {"state": {"phase": "Marvellous"}}, State.UNKNOWN, "Marvellous"),
    ],
)
def test_the_state_of_an_operators_job(kind: str, status: dict[str, Any], state: State, word: str) -> None:
    found = read(kind, {}, status)
    assert (found.state, found.status) == (state, word)


def test_the_conditions_of_a_listing() -> None:
    found = read("RayJob", RAY, {"jobDeploymentStatus": "Running"})._replace(user="Ada", tags={"a": "1"})
    good = [
        JobFilter(),
        JobFilter(states=frozenset({State.RUNNING})),
        JobFilter(user="ada"),
        JobFilter(tag="a"),
    ]
    assert all(fits(found, one) for one in [*good, JobFilter(tag="a=1"), JobFilter(name_end="tune")])
    bad = [JobFilter(states=frozenset({State.FAILED})), JobFilter(user="bob"), JobFilter(tag="a=2")]
    assert not any(fits(found, one) for one in [*bad, JobFilter(tag="b"), JobFilter(experiment="x")])
