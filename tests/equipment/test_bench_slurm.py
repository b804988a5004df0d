"""The Slurm benchmark's own parts, and gofer's turns at tiny sizes on a real cluster. None judges a time."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm

from bench import idle
from bench.errors import BenchError
from bench.figures import Figure
from bench.measure import Sample
from bench.peers import none
from bench.places import Places
from bench.plan import Plan
from bench.rounds import Outcome
from bench.slurm import idle_clients, queue_states, submission
from bench.slurm.cluster import BenchCluster, start_cluster
from bench.slurm.idle_clients import IdleCalls
from bench.slurm.queue_states import ListingResult, QuestionPair
from bench.slurm.tally import PROGRAMS, Call, Tally, summary

pytestmark = ON_SLURM


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    places = Places.open({"GOFER_BENCH_DIR": str(tmp_path)})
    yield replace(
        Plan.quick(places, none(places.peers)),
        submit_rounds=1,
        array_rows=12,
        slurm_singles=2,
        slurm_settle_s=1.0,
        slurm_idle_s=20.0,
    )
    idle.sweep(places.scratch)


@pytest.fixture
def cluster(plan: Plan, slurm: Slurm) -> BenchCluster:
    return BenchCluster.of(plan, slurm.exports)


def sample(wall_s: float = 1.0) -> Sample:
    return Sample(wall_s, 1.0, 1.0)


# -- arithmetic


@pytest.mark.parametrize(("cpu_s", "met"), [(0.16, True), (0.1601, False)])
def test_the_bar_of_one_run_is_a_difference(cpu_s: float, met: bool) -> None:
    bar = submission.overhead_bar(Figure(cpu_s, 0.2, 3), Figure(0.01, 0.02, 3))
    assert bar.met is met
    assert bar.value == "+ 150 ms (medians + 180 ms)"


def test_a_side_that_is_missing_is_not_judged() -> None:
    assert submission.overhead_bar(Figure(0.1, 0.1, 1), None).met is None
    assert ListingResult("2 runs", Outcome()).bar().met is None
    assert idle_clients.bar(None).met is None


def test_the_bar_of_a_question_takes_the_worst_round_and_both_questions() -> None:
    once, twice = QuestionPair(sample(), 1, sample(), 0), QuestionPair(sample(), 1, sample(), 1)
    assert ListingResult("2 runs", Outcome({queue_states.GOFER: [once, once]})).bar().met is True
    worst = ListingResult(
        "2 runs", Outcome({queue_states.GOFER: [once, twice], queue_states.SQUEUE: [twice]})
    )
    assert (worst.bar().met, worst.bar().value) == (False, "2 calls")
    assert [row[1] + row[5] for row in worst.table().rows] == ["11", "11"]


def test_the_rate_is_taken_between_calls() -> None:
    every_thirty = [Call(1000.0 + 30 * number, "squeue") for number in range(7)]
    settled = IdleCalls([], every_thirty, 110.0, 180.0)
    assert (settled.an_hour, idle_clients.bar(settled).met) == (120.0, True)
    faster = [Call(one.at * 0.99, one.program) for one in every_thirty]
    assert idle_clients.bar(replace(settled, settled=faster)).met is False
    assert idle_clients.bar(replace(settled, settled=every_thirty[:1])).met is None


def test_a_count_that_began_too_soon_is_not_judged() -> None:
    calls = [Call(0.0, "squeue"), Call(30.0, "squeue")]
    assert idle_clients.bar(IdleCalls([], calls, 10.0, 20.0)).met is None


# -- counting


def test_every_call_is_counted_and_reaches_the_real_program(tmp_path: Path, slurm: Slurm) -> None:
    folder = tmp_path / "it's here"
    folder.mkdir()
    tally = Tally.make(folder)
    env = tally.environment(slurm.env)
    for name in ("sinfo", "squeue", "squeue"):
        done = subprocess.run([name, "--version"], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("slurm")
    calls = tally.calls()
    assert [call.program for call in calls] == ["sinfo", "squeue", "squeue"]
    assert calls[0].at <= calls[1].at <= calls[2].at
    assert summary(calls) == "3: sinfo, 2 squeue"
    tally.clear()
    assert (tally.calls(), summary([])) == ([], "0")
    assert {path.name for path in (folder / "bin").iterdir()} == set(PROGRAMS)
    assert shutil.which("sbatch", path=env["PATH"]) == str(folder / "bin" / "sbatch")


def test_a_cluster_that_cannot_be_had_is_an_error_that_says_so(plan: Plan) -> None:
    deep = plan.places.scratch / ("x" * 90)
    deep.mkdir()
    far = replace(plan, places=replace(plan.places, scratch=deep))
    with pytest.raises(BenchError, match=r"no cluster: .* too long a path"), start_cluster(far):
        pass


# -- gofer's turns


def test_one_run(cluster: BenchCluster) -> None:
    outcome = submission.overhead(cluster)
    assert outcome.failures == {}
    assert {name: len(taken) for name, taken in outcome.samples.items()} == {
        submission.SBATCH: 1,
        submission.GOFER: 1,
    }
    assert len(submission.overhead_table(outcome).rows) == 2


def test_an_array(cluster: BenchCluster, slurm: Slurm) -> None:
    array = submission.Array(cluster)
    outcome = array.measure()
    assert list(outcome.failures) == [submission.SUBMITIT_ARRAY]
    assert sorted(call.program for call in array.calls[submission.GOFER_ARRAY]) == [
        "sbatch",
        "scontrol",
        "squeue",
    ]
    assert [call.program for call in array.calls[array.loop]] == ["sbatch"] * 12
    assert array.bar().met is True
    assert slurm.call("squeue", "--noheader", "--states=PENDING") == ""


@pytest.mark.parametrize("is_array", [True, False])
def test_how_runs_stand(cluster: BenchCluster, is_array: bool) -> None:
    stood = queue_states.measure(cluster, is_array=is_array)
    assert list(stood.outcome.failures) == [queue_states.SUBMITIT]
    ours, queue = (stood.outcome.samples[name] for name in (queue_states.GOFER, queue_states.SQUEUE))
    assert [look.fresh_calls for look in ours] == [1, 1, 1]
    assert [(look.fresh_calls, look.again_calls) for look in queue] == [(1, 1)] * 3


def test_terminals_that_wait_ask_together(cluster: BenchCluster) -> None:
    watched = idle_clients.watch(cluster)
    assert {call.program for call in watched.settling + watched.settled} == {"squeue"}
    assert watched.an_hour is not None
    # An answer of Slurm serves all terminals for two seconds at least.
    times = [call.at for call in watched.settled]
    assert min(later - earlier for earlier, later in pairwise(times)) > 1.9, times
    assert idle.belonging(cluster.plan.places.scratch) == []
