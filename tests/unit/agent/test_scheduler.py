"""Who starts when: priority, first come first served, back-fill that delays nobody, GPUs in blocks."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gofer.queue.scheduler import PATIENCE_S, Demand, Grant, HeldGrant, Pool, choose

GPUS, BLOCK, CPUS = 8, 4, 16


def demand(
    *, gpus: int = 0, nodes: int = 1, cpus: int = 1, limit_s: float | None = None, block: int = BLOCK
) -> Demand:
    """`gpus` are those of each node."""
    return Demand(nodes=nodes, gpus_per_node=gpus, cpus=cpus, limit_s=limit_s, target_gpus=GPUS, block=block)


def started(
    waiting: list[Demand], pool: Pool, held: list[HeldGrant] | None = None, *, passed_over_s: float = 0.0
) -> tuple[list[int], int | None]:
    """Which of the waiting start, and which one waits at the head; by position."""
    numbered = list(enumerate(waiting))
    starts, head = choose(
        numbered, lambda one: one[1], pool, held or [], now=1000.0, passed_over_s=passed_over_s
    )
    return [one[0] for one, _ in starts], None if head is None else head[0]


def held_by(pool: Pool, one: Demand, *, ends_at: float = math.inf) -> HeldGrant:
    grant = pool.fit(one)
    assert grant is not None
    pool.take(grant)
    return HeldGrant(grant, ends_at)


# -- fitting


def test_the_gpus_of_one_node_lie_in_one_block() -> None:
    pool = Pool(CPUS)
    first = held_by(pool, demand(gpus=2))
    assert first.grant.gpus == [[0, 1]]
    assert pool.fit(demand(gpus=4)) == Grant([[4, 5, 6, 7]], 1)
    held_by(pool, demand(gpus=2, cpus=1))
    second = held_by(pool, demand(gpus=2))
    assert second.grant.gpus == [[4, 5]]
    # Two are free and in two blocks' worth of machine, but four in no single block.
    assert pool.fit(demand(gpus=4)) is None


def test_two_nodes_get_blocks_of_their_own() -> None:
    assert Pool(CPUS).fit(demand(gpus=4, nodes=2, cpus=8)) == Grant([[0, 1, 2, 3], [4, 5, 6, 7]], 8)
    assert Pool(CPUS).fit(demand(gpus=2, nodes=2)) == Grant([[0, 1], [4, 5]], 1)


def test_two_small_nodes_share_a_block_when_they_must() -> None:
    pool = Pool(CPUS)
    held_by(pool, demand(gpus=4))
    assert pool.fit(demand(gpus=2, nodes=2)) == Grant([[4, 5], [6, 7]], 1)


def test_a_block_cut_short_by_the_number_of_gpus() -> None:
    one = Demand(nodes=1, gpus_per_node=3, cpus=1, limit_s=None, target_gpus=6, block=4)
    pool = Pool(CPUS)
    assert held_by(pool, one).grant.gpus == [[0, 1, 2]]
    assert pool.fit(one) is None


def test_more_cpus_than_there_are_is_all_of_them() -> None:
    pool = Pool(2)
    assert pool.fit(demand(cpus=64)) == Grant([[]], 2)
    held_by(pool, demand())
    assert pool.fit(demand(cpus=64)) is None


def test_what_is_given_back_can_be_taken_again() -> None:
    pool = Pool(CPUS)
    first = held_by(pool, demand(gpus=4, nodes=2, cpus=16))
    assert pool.fit(demand()) is None
    pool.give_back(first.grant)
    assert pool.fit(demand(gpus=4, nodes=2, cpus=16)) == first.grant


# -- order and back-fill


def test_all_that_fit_start_in_order() -> None:
    assert started([demand(), demand(gpus=4), demand(cpus=2)], Pool(CPUS)) == ([0, 1, 2], None)


def test_nothing_passes_one_that_waits_for_all_cpus() -> None:
    pool = Pool(4)
    running = held_by(pool, demand(cpus=2, limit_s=100), ends_at=1100.0)
    assert started([demand(cpus=4), demand(cpus=2)], pool, [running]) == ([], 0)


def test_a_short_run_goes_first_when_it_ends_before_the_head_could_start() -> None:
    pool = Pool(4)
    running = held_by(pool, demand(cpus=2, limit_s=100), ends_at=1100.0)
    assert started([demand(cpus=4), demand(cpus=2, limit_s=99)], pool, [running]) == ([1], 0)


def test_a_run_that_would_end_later_does_not() -> None:
    pool = Pool(4)
    running = held_by(pool, demand(cpus=2, limit_s=100), ends_at=1100.0)
    assert started([demand(cpus=4), demand(cpus=2, limit_s=101)], pool, [running]) == ([], 0)


def test_a_run_beside_which_the_head_still_fits_goes_first() -> None:
    """The head waits for GPUs of the first block; a run that needs only a CPU cannot delay it."""
    pool = Pool(CPUS)
    running = held_by(pool, demand(gpus=4, nodes=2, cpus=8, limit_s=100), ends_at=1100.0)
    assert started([demand(gpus=4), demand()], pool, [running]) == ([1], 0)


def test_without_time_limits_others_start_before_the_head_only_for_a_while() -> None:
    pool = Pool(4)
    running = held_by(pool, demand(cpus=2))
    assert started([demand(cpus=4), demand(cpus=2)], pool, [running]) == ([1], 0)
    pool = Pool(4)
    running = held_by(pool, demand(cpus=2))
    assert started([demand(cpus=4), demand(cpus=2)], pool, [running], passed_over_s=PATIENCE_S) == ([], 0)


def test_a_full_machine_is_not_searched() -> None:
    pool = Pool(1)
    running = held_by(pool, demand())

    def refuse(_: Demand) -> Demand:
        raise AssertionError("nothing can start, so nobody's demand matters")

    waiting = [demand(), demand()]
    assert choose(waiting, refuse, pool, [running], now=0.0, passed_over_s=0.0) == ([], waiting[0])


# -- properties


class Job(NamedTuple):
    demand: Demand
    runs_s: float


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    nodes = draw(st.sampled_from([1, 1, 1, 2]))
    return demand(
        gpus=draw(st.sampled_from([0, 0, 1, 2, 3, 4])),
        nodes=nodes,
        cpus=draw(st.integers(1, CPUS)),
        limit_s=draw(st.sampled_from([None, None, 10.0, 60.0, 600.0])),
    )


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    one = draw(demands())
    return Job(one, draw(st.floats(0.5, 600.0 if one.limit_s is None else one.limit_s)))


def check_not_overcommitted(running: list[tuple[Job, Grant, float]]) -> None:
    given_out = [gpu for _, grant, _ in running for gpus in grant.gpus for gpu in gpus]
    assert len(given_out) == len(set(given_out))
    assert sum(grant.cpus for _, grant, _ in running) <= CPUS
    for job, grant, _ in running:
        assert [len(gpus) for gpus in grant.gpus] == [job.demand.gpus_per_node] * job.demand.nodes
        assert all(gpu < GPUS for gpu in given_out)
        assert all(len({gpu // BLOCK for gpu in gpus}) <= 1 for gpus in grant.gpus)


def simulate(arrivals: list[tuple[float, Job]]) -> dict[int, float]:
    """Run the queue on a clock of its own to the end; when each job started, by its position."""
    pool, now, started_at = Pool(CPUS), 0.0, dict[int, float]()
    coming, waiting = (
        sorted(enumerate(arrivals), key=lambda one: (one[1][0], one[0])),
        list[tuple[int, Job]](),
    )
    running: list[tuple[Job, Grant, float]] = []
    head, head_since = None, 0.0
    for _ in range(20 * len(arrivals) + 20):
        while coming and coming[0][1][0] <= now:
            number, (_, job) = coming.pop(0)
            waiting.append((number, job))
        for one in [one for one in running if one[2] <= now]:
            running.remove(one)
            pool.give_back(one[1])
        held = [
            HeldGrant(
                grant, math.inf if job.demand.limit_s is None else ends - job.runs_s + job.demand.limit_s
            )
            for job, grant, ends in running
        ]
        starts, new_head = choose(
            waiting,
            lambda one: one[1].demand,
            pool,
            held,
            now=now,
            passed_over_s=now - head_since if head else 0.0,
        )
        if new_head != head:
            head, head_since = new_head, now
        for (number, job), grant in starts:
            waiting.remove((number, job))
            started_at[number] = now
            running.append((job, grant, now + job.runs_s))
        check_not_overcommitted(running)
        times = [ends for _, _, ends in running] + [at for _, (at, _) in coming[:1]]
        if not times:
            break
        now = min(times)
    return started_at


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1000), jobs()), max_size=25))
def test_nothing_is_given_twice_and_everything_starts(arrivals: list[tuple[float, Job]]) -> None:
    assert set(simulate(arrivals)) == set(range(len(arrivals)))


@pytest.mark.parametrize("limit_s", [None, 60.0])
@pytest.mark.parametrize("big", [demand(cpus=CPUS), demand(gpus=4, nodes=2), demand(gpus=4, cpus=9)])
@pytest.mark.parametrize("small", [demand(), demand(gpus=1), demand(gpus=3, cpus=3), demand(cpus=5)])
def test_a_large_run_is_not_starved_by_a_stream_of_small_ones(
    big: Demand, small: Demand, limit_s: float | None
) -> None:
    """One small run is there first, and another comes every five seconds for far longer than anyone waits."""
    stream = [(5.0 * number, Job(small._replace(limit_s=limit_s), 40.0)) for number in range(120)]
    waited_s = simulate([*stream, (0.5, Job(big, 1.0))])[len(stream)] - 0.5
    assert waited_s <= PATIENCE_S + 40.0


@settings(deadline=None)
@given(st.lists(demands(), max_size=12))
def test_equals_start_first_come_first_served(waiting: list[Demand]) -> None:
    """A run never starts before an equal one that came earlier."""
    starts, _ = started(waiting, Pool(CPUS))
    for number in starts:
        assert all(early in starts for early in range(number) if waiting[early] == waiting[number])


@pytest.mark.parametrize("passed_over_s", [0.0, PATIENCE_S])
@settings(deadline=None)
@given(waiting=st.lists(demands(), min_size=1, max_size=8))
def test_the_head_is_the_first_that_did_not_start(passed_over_s: float, waiting: list[Demand]) -> None:
    pool = Pool(CPUS)
    running = held_by(pool, demand(gpus=3, cpus=10, limit_s=30.0), ends_at=1030.0)
    starts, head = started(waiting, pool, [running], passed_over_s=passed_over_s)
    left = [number for number in range(len(waiting)) if number not in starts]
    assert head == (left[0] if left else None)


def test_memory_is_counted_for_runs_that_ask_for_it() -> None:
    pool = Pool(CPUS, 1000)
    held_by(pool, demand()._replace(memory_mib=700))
    assert pool.fit(demand()._replace(memory_mib=400)) is None
    assert pool.fit(demand()._replace(memory_mib=300)) == Grant([[]], 1, 300)
    assert pool.fit(demand()) == Grant([[]], 1)
    assert pool.without([]).fit(demand()._replace(memory_mib=9000)) == Grant([[]], 1, 1000)
    assert pool.fit(demand()._replace(memory_mib=9000)) is None
