"""Which Jobs can be told by themselves, so that one request is enough, and the rows of an array."""

from __future__ import annotations

import time
from typing import Any

import pytest
from unit.kubernetes.kube_samples import VERSIONS, sample

from gofer.backends.base import RunRef
from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.state.start_troubles import Patience
from gofer.backends.kubernetes.state.status import KubernetesStatus, encode, needs_pods, parse_indexes
from gofer.backends.polling import ClusterAnswer
from gofer.core.states import State
from gofer.model.run import Observation

RUN = "r261119-120000-abc234"


def job_of(name: str, **spec: Any) -> dict[str, Any]:
    """A recorded Job as gofer makes it: its nodes are noted."""
    job = sample(VERSIONS[-1], name).job
    job["metadata"]["name"] = RUN
    job["metadata"]["annotations"] = {names.NODES_NOTE: str(job["spec"]["completions"])}
    job["spec"].update(spec)
    return job


def observed(job: dict[str, Any], *runs: RunRef, pods: tuple[dict[str, Any], ...] = ()) -> list[Observation]:
    answer = ClusterAnswer(jobs=[encode(job, pods)], at=time.time())
    status = KubernetesStatus(answer, {}, patience=Patience(), patience_s=60.0)
    found = status.of(runs)
    return [found[run.id] for run in runs]


@pytest.mark.parametrize("name", ["running", "two-nodes"])
def test_a_job_whose_pods_are_all_ready_tells_its_state_without_them(name: str) -> None:
    job = job_of(name)
    assert not needs_pods(job, True)
    (found,) = observed(job, RunRef(RUN))
    assert found.state == State.RUNNING
    assert found.started_at is not None


@pytest.mark.parametrize("name", ["half-of-two", "image-missing", "no-python", "too-many-gpus", "suspended"])
def test_a_job_that_does_not_run_yet_is_told_by_its_pods(name: str) -> None:
    assert needs_pods(job_of(name), True)


def test_the_rows_of_an_array_are_told_by_their_pods() -> None:
    job = job_of("two-nodes")
    job["metadata"]["annotations"] = {names.NODES_NOTE: "1"}
    assert needs_pods(job, True)


def test_the_pods_of_an_ended_job_are_listed_only_for_a_failure_that_somebody_asks_about() -> None:
    assert needs_pods(job_of("exit-3"), True)
    assert not needs_pods(job_of("exit-3"), False)
    assert not needs_pods(job_of("succeeded"), True)


def test_each_row_has_its_own_end() -> None:
    job = job_of("running", completions=4, parallelism=2)
    job["metadata"]["annotations"] = {names.NODES_NOTE: "1"}
    job["status"] |= {"completedIndexes": "0,2", "failedIndexes": "1"}
    rows = [RunRef(f"{RUN}-{row}", RUN, row) for row in range(4)]
    states = [one.state for one in observed(job, *rows)]
    assert states == [State.SUCCEEDED, State.FAILED, State.SUCCEEDED, State.QUEUED]


def test_indexes_as_kubernetes_writes_them() -> None:
    assert parse_indexes("1,3-5,7") == {1, 3, 4, 5, 7}
    assert parse_indexes("") == set()
    assert parse_indexes("x,2-") == {2}
