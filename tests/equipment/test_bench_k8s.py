"""The Kubernetes benchmark's own parts, and its turns at tiny sizes on a real cluster. No time is judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes

from bench import idle
from bench.k8s import latencies, states, submission
from bench.k8s.cluster import BenchKubernetes, Calls
from bench.k8s.submission import Submissions
from bench.measure import Sample
from bench.peers import none
from bench.places import Places
from bench.plan import Plan
from bench.rounds import Outcome

pytestmark = ON_K8S


@pytest.fixture
def cluster(tmp_path: Path, k8s: Kubernetes) -> Iterator[BenchKubernetes]:
    places = Places.open({"GOFER_BENCH_DIR": str(tmp_path)})
    plan = replace(Plan.quick(places, none(places.peers)), submit_rounds=1, k8s_runs=2, k8s_rounds=1)
    yield BenchKubernetes.of(plan, k8s)
    idle.sweep(places.scratch)


def sample(cpu_s: float) -> Sample:
    return Sample(1.0, cpu_s, 1.0)


def test_writes_and_ratios_are_judged() -> None:
    taken = {
        submission.GOFER: [sample(0.2)],
        submission.KUBECTL: [sample(0.1)],
        submission.TORCHX: [sample(0.9)],
    }
    found = Submissions(Outcome(taken), {submission.GOFER: Calls(4, 3)})
    assert [bar.met for bar in found.bars()] == [True, True, False, None]
    found.calls[submission.GOFER] = Calls(5, 4)
    assert [bar.met for bar in found.bars()] == [True, False, False, None]


def test_a_latency_is_judged_against_that_of_kubectl() -> None:
    outcome = Outcome({latencies.GOFER: [1.5, 2.0], latencies.KUBECTL: [1.0, 1.0]})
    assert latencies.bar("p", 0.6, outcome).met is True
    assert latencies.bar("p", 0.4, outcome).met is False
    assert latencies.bar("p", 0.4, outcome).value == "+0.50 s (medians +0.75 s)"
    assert latencies.plain_bar("p", 1.5, outcome).met is True
    assert latencies.plain_bar("p", 1.5, Outcome()).met is None


def test_requests_are_counted_by_the_client_that_sent_them() -> None:
    assert Calls(7, 3).since(Calls(2, 1)) == Calls(5, 2)
    assert str(Calls(1_200, 3)) == "1,200, 3 writes"


def test_gofer_and_kubectl_take_their_turns(cluster: BenchKubernetes) -> None:
    found = submission.measure(cluster)
    assert set(found.outcome.samples) == {submission.GOFER, submission.KUBECTL}
    assert set(found.outcome.failures) == {submission.TORCHX, submission.KUBEFLOW}
    assert found.calls[submission.KUBECTL].writes == 1
    assert found.calls[submission.GOFER].writes >= 3
    table, bars, failures = states.measure(cluster)
    assert failures == {}
    assert [row[0] for row in table.rows] == [states.GOFER, states.KUBECTL]
    assert len(bars) == 2


def test_latencies_are_taken_from_both(cluster: BenchKubernetes) -> None:
    for taken in (latencies.first_instruction, latencies.log_line, latencies.shell):
        outcome = taken(cluster)
        assert outcome.failures == {}
        assert all(0 < one < 120 for one in outcome.samples[latencies.GOFER])
        assert all(0 < one < 120 for one in outcome.samples[latencies.KUBECTL])
