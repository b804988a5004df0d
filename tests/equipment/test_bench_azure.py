"""The Azure benchmark's own parts, and all turns at tiny sizes on a workspace. None judges a time."""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bench import idle
from bench.azure import before, operations
from bench.azure.operations import Operation
from bench.azure.section import section
from bench.azure.workspace import ENDED, SENT, BenchWorkspace, Service, start_workspace
from bench.errors import BenchError
from bench.measure import Sample
from bench.peers import AZURE_ML, Peers, none
from bench.places import Places
from bench.plan import Plan
from bench.report import verdict
from bench.rounds import Outcome

# The first test waits for the workspace and for the runs in it.
pytestmark = [pytest.mark.net, pytest.mark.xdist_group("bench-azure"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plan]:
    """The SDK is that of the tests' own interpreter."""
    places = Places.open({"GOFER_BENCH_DIR": str(tmp_path_factory.mktemp("bench"))})
    python = places.peers / AZURE_ML / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    peers = Peers(places.peers, {AZURE_ML: "the tests'"}, {})
    yield replace(Plan.quick(places, peers), azure_rounds=1, azure_jobs=30, azure_lines=300)
    idle.sweep(places.scratch)


@pytest.fixture(scope="module")
def workspace(plan: Plan) -> Iterator[BenchWorkspace]:
    with start_workspace(plan) as found:
        yield found


@pytest.fixture(scope="module")
def runs(workspace: BenchWorkspace) -> dict[str, str]:
    return operations.prepare(workspace)


# -- arithmetic


def operation(**cpu_s: float) -> Operation:
    samples = {name: [Sample(1.0, value, 1.0)] for name, value in cpu_s.items()}
    asked = {name: Counter({"GET jobs": 1}) for name in cpu_s}
    return Operation("list", ("ours", "again"), ("theirs", "best"), ("besides",), Outcome(samples), asked)


@pytest.mark.parametrize(("again", "met"), [(0.2, True), (0.21, False)])
def test_the_bar_is_of_gofers_costliest_way_and_the_sdks_cheapest(again: float, met: bool) -> None:
    bar = operation(ours=0.1, again=again, theirs=2.0, best=1.0).bar()
    assert bar.met is met
    assert bar.value == ("5.00x less (medians 5.00x)" if met else "4.76x less (medians 4.76x)")


def test_what_is_not_alike_is_shown_and_not_judged() -> None:
    done = operation(ours=0.1, again=0.1, theirs=1.0, best=1.0, also_shown=0.2)
    assert done.bar().value == "10.0x less (medians 10.0x)"
    assert {row[0]: row[-1] for row in done.table().rows}["besides"] == ""
    assert [row[-1] for row in done.table().rows].count("yes") == 4


def test_a_side_that_is_missing_is_not_judged() -> None:
    assert operation(ours=0.1, again=0.1).bar().met is None
    assert operation(ours=0.1, best=1.0).bar().met is None
    assert [bar.met for bar in before.bars(Outcome({before.KEPT: [0.1]}))] == [True, None]


@pytest.mark.parametrize(("new_s", "met"), [(0.25, True), (0.251, False)])
def test_the_bar_before_the_network_is_in_seconds_and_for_both_logins(new_s: float, met: bool) -> None:
    kept, new = before.bars(Outcome({before.KEPT: [0.1], before.NEW: [new_s, 0.4]}))
    assert (kept.met, new.met) == (True, met)
    assert verdict(new) == ("met" if met else "**MISSED**")
    assert new.promise == "`gofer q`, no login kept: CPU before the network ≤ 0.25 s"


# -- the workspace


def test_a_workspace_that_cannot_be_had_is_an_error_that_says_so(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    with pytest.raises(BenchError, match="make bench-azure"), start_workspace(plan):
        pass
    assert list(section(replace(plan, peers=none(plan.places.peers))).failures) == ["gofer and azure-ai-ml"]


def test_requests_are_counted_once_and_those_of_the_benchmark_not(
    workspace: BenchWorkspace, runs: dict[str, str]
) -> None:
    service: Service = workspace.service
    service.requests()
    workspace.gofer("list", "jobs", "--server")
    assert service.requests() == Counter({"GET jobs": 1})
    assert service.requests() == Counter()


# -- turns


def test_how_a_run_stands(workspace: BenchWorkspace, runs: dict[str, str]) -> None:
    done = operations.asking(workspace, runs)
    assert done.outcome.failures == {}
    assert [len(taken) for taken in done.outcome.samples.values()] == [1] * 6
    # What is judged asks the service how the run stands, and has its login already.
    for name in (*done.ours, *done.theirs):
        assert done.requests[name]["GET jobs/{name}"] >= 1
        assert done.requests[name]["POST token"] == 0
    assert [done.requests[name]["POST token"] for name in done.also_shown] == [1, 0, 1]
    assert len(done.table().rows) == len(done.notes()) == 6


def test_what_is_judged_begins_when_the_end_is_not_known(
    workspace: BenchWorkspace, runs: dict[str, str]
) -> None:
    states = {}
    for state in (SENT, ENDED):
        workspace.go_back(state)
        with closing(sqlite3.connect(workspace.home / "ledger.db")) as ledger:
            found = ledger.execute("SELECT state FROM runs WHERE id = ?", [runs["ended"]])
            states[state] = found.fetchone()[0]
    assert states == {SENT: "queued", ENDED: "succeeded"}


def test_the_end_of_a_log(workspace: BenchWorkspace, runs: dict[str, str]) -> None:
    done = operations.tailing(workspace, runs)
    assert done.outcome.failures == {}
    assert done.requests[done.ours[0]] == Counter()
    assert all(
        f"line {number} of" in done.outcome.samples[name][0].output
        for name in (*done.ours, *done.theirs, *done.also_shown)
        for number in (202, 300)
    )


def test_a_list(workspace: BenchWorkspace, runs: dict[str, str]) -> None:
    done = operations.listing(workspace)
    assert done.outcome.failures == {}
    assert done.requests[done.ours[0]] == Counter({"GET jobs": 1})


def test_a_submission(workspace: BenchWorkspace, runs: dict[str, str]) -> None:
    done = operations.submitting(workspace)
    assert done.outcome.failures == {}
    assert done.requests[done.ours[0]] == Counter({"PUT jobs/{name}": 1})
    for name, logins in ((done.theirs[0], 0), (done.also_shown[0], 1)):
        assert done.requests[name]["PUT jobs/{name}"] == 1
        assert done.requests[name]["POST token"] == logins


def test_before_the_network(workspace: BenchWorkspace, runs: dict[str, str]) -> None:
    outcome = before.before(workspace, runs["going"])
    assert outcome.failures == {}
    assert all(0 < one < 60 for taken in outcome.samples.values() for one in taken)
    assert len(before.table(outcome).rows) == 2


def test_a_question_that_needs_no_network_is_no_figure(
    workspace: BenchWorkspace, runs: dict[str, str]
) -> None:
    missing = workspace.root / "no report"
    with pytest.raises(BenchError, match="did not use the network"):
        before._reported(missing)


def test_an_answer_that_is_not_the_logs_end_is_no_figure(workspace: BenchWorkspace) -> None:
    with pytest.raises(BenchError, match="the end of the log"):
        operations._tailed(workspace, Sample(1.0, 1.0, 1.0, "something else"))


def test_a_driver_is_started_where_the_sdk_is(workspace: BenchWorkspace, tmp_path: Path) -> None:
    alone = replace(workspace, plan=replace(workspace.plan, peers=none(tmp_path)))
    with pytest.raises(BenchError, match="azure-ai-ml is not installed"):
        alone.sdk("list", "1")
