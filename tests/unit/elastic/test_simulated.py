"""Elastic runs in a simulated cluster: what a loss, a join and a frozen agent cost."""

from __future__ import annotations

import pytest
from elasticdrill.simulation import SimulatedAgent, World

from gofer.node.elastic import records
from gofer.node.elastic.rules import JOIN_NEVER, JOIN_NOW, ElasticRules

RULES = ElasticRules(1, 3, join_every_s=20.0, join_patience_s=30.0, settle_s=10.0)


def training(nodes: int, *, rules: ElasticRules = RULES, seed: int = 1) -> World:
    """A cluster in which so many nodes train."""
    world = World(seed, rules, is_calm=True)
    for slot in range(nodes):
        world.add(slot)
    world.run_until(lambda: world.is_training(nodes), within_s=20.0, what=f"{nodes} nodes train")
    return world


def member(world: World) -> SimulatedAgent:
    return next(one for one in world.living if one.participant.leader is None and one.running is not None)


def test_the_first_generation_waits_for_more_nodes_only_while_some_arrive() -> None:
    world = World(1, RULES, is_calm=True)
    world.add(0)
    world.run(9.0)
    assert not world.committed.get(1)
    world.add(1)
    world.run(9.0)
    assert not world.committed.get(1)
    world.run(3.0)
    assert len(world.committed[1].members) == 2


def test_the_full_number_of_nodes_starts_at_once() -> None:
    world = training(3)
    assert world.now < 3.0


def test_fewer_nodes_than_the_minimum_start_nothing() -> None:
    world = World(1, RULES._replace(min_nodes=2), is_calm=True)
    world.add(0)
    world.run(600.0)
    assert list(world.committed) == [0]
    assert world.living[0].participant.member.waits == "1 of at least 2 nodes"


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_agent_is_replaced_by_the_others_in_seconds(seed: int) -> None:
    world = training(3, seed=seed)
    member(world).die(with_machine=False)
    took_s = world.run_until(lambda: world.is_training(2), within_s=20.0, what="the others go on")
    assert took_s < 6.0  # the others get five seconds to end their ranks
    assert world.ends[-1].reason == "membership"


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_that_is_cut_off_never_writes_beside_the_others(seed: int) -> None:
    world = training(3, seed=seed)
    lost = member(world)
    world.cut.add(lost.slot)
    took_s = world.run_until(
        lambda: max(world.committed) == 2 and all(one.running or one is lost for one in world.living),
        within_s=30.0,
        what="the others go on",
    )
    assert 7.0 <= took_s < 14.0
    assert lost.running is None


@pytest.mark.parametrize("seed", range(5))
def test_the_run_survives_the_machine_of_the_leader(seed: int) -> None:
    world = training(3, seed=seed)
    first = world.leaders[0]
    first.die(with_machine=True)
    took_s = world.run_until(lambda: world.is_training(2), within_s=60.0, what="the others go on")
    assert took_s < 16.0
    assert world.lease is not None and world.lease.epoch == 2
    assert first.participant.word not in world.committed[2].words


def test_the_survivors_keep_their_order_and_newcomers_come_last() -> None:
    world = training(3, rules=RULES._replace(join=JOIN_NOW, join_every_s=0.0))
    words = world.committed[1].words
    lost = next(one for one in world.living if one.participant.word == words[1])
    lost.die(with_machine=False)
    world.run_until(lambda: world.is_training(2), within_s=20.0, what="the others go on")
    new = world.add(lost.slot)
    world.run_until(lambda: world.is_training(3), within_s=20.0, what="the new node joins")
    assert world.committed[3].words == [words[0], words[2], new.participant.word]


def test_nobody_restarts_while_the_store_is_away() -> None:
    world = training(3)
    world.store.is_away = True
    world.run(60.0)
    assert world.is_training(3) and max(world.committed) == 1
    world.store.is_away = False
    world.run(60.0)
    assert world.is_training(3) and max(world.committed) == 1 and len(world.leaders) == 1


def test_a_loss_while_the_store_is_away_stops_all_ranks_until_it_is_back() -> None:
    world = training(3)
    world.store.is_away = True
    world.run(10.0)
    member(world).die(with_machine=False)
    world.run(30.0)
    assert not any(one.running for one in world.living)
    world.store.is_away = False
    world.run_until(lambda: world.is_training(2), within_s=20.0, what="the others go on")


def test_the_leader_alone_without_the_store_stops_before_another_group_begins() -> None:
    world = training(3)
    first = world.leaders[0]
    world.no_store.add(first.slot)
    world.cut.add(first.slot)
    world.run_until(lambda: max(world.committed) == 2, within_s=30.0, what="the others go on")
    assert first.running is None
    world.cut.clear()
    world.no_store.clear()
    world.run(10.0)
    assert len(world.leaders) == 1 and world.leaders[0] is not first


@pytest.mark.parametrize("with_ranks", [True, False])
@pytest.mark.parametrize("seconds", [10.0, 60.0])
@pytest.mark.parametrize("is_leader", [True, False])
def test_a_frozen_agent_has_no_ranks_when_others_go_on(
    with_ranks: bool, seconds: float, is_leader: bool
) -> None:
    world = training(3)
    frozen = world.leaders[0] if is_leader else member(world)
    frozen.freeze(with_ranks=with_ranks)
    world.run(seconds)
    frozen.thaw()
    assert frozen.running is None or seconds < 12.0
    world.run_until(lambda: world.is_training(3), within_s=90.0, what="it joins again")


def test_a_new_node_joins_at_the_next_checkpoint() -> None:
    world = training(2)
    world.run(30.0)
    world.add(2)
    world.run_until(lambda: world.is_training(3), within_s=35.0, what="it joins")
    assert world.ends[-1].detail == "node 2 on host2 joined"


def test_several_new_nodes_join_together() -> None:
    world = training(2, rules=RULES._replace(max_nodes=20))
    for slot in range(2, 20):
        world.add(slot)
    world.run_until(lambda: world.is_training(20), within_s=60.0, what="they join")
    assert max(world.committed) <= 3


def test_a_new_node_waits_for_a_loss_where_nodes_never_join() -> None:
    world = training(2, rules=RULES._replace(join=JOIN_NEVER))
    world.add(2)
    world.run(200.0)
    assert max(world.committed) == 1
    member(world).die(with_machine=False)
    world.run_until(lambda: world.is_training(2), within_s=20.0, what="it takes the place")


def test_a_failure_beside_a_lost_node_does_not_use_up_a_retry() -> None:
    world = training(3, rules=RULES._replace(retries=0, retry_on=("exit-code",)))
    lost, number = member(world), max(world.committed)
    other = next(one for one in world.living if one is not lost)
    lost.die(with_machine=True)
    world.run(0.2)
    other.end_ranks(number, records.FAILED, "exit-code")
    world.run_until(lambda: world.is_training(2), within_s=30.0, what="the others go on")
    assert world.lease is not None and world.lease.failures == 0


@pytest.mark.parametrize(("reason", "retries", "generations"), [("exit-code", 2, 3), ("time-limit", 2, 1)])
def test_failures_of_the_command_are_retried_as_the_job_says(
    reason: str, retries: int, generations: int
) -> None:
    world = training(3, rules=RULES._replace(retries=retries, retry_on=("exit-code",)))
    for number in range(1, generations + 1):
        world.run_until(
            lambda number=number: world.is_training(3) and max(world.committed) == number,  # type: ignore[misc]
            within_s=20.0,
            what=f"generation {number}",
        )
        member(world).end_ranks(number, records.FAILED, reason)
    world.run_until(world.is_over, within_s=20.0, what="the run ends")
    assert world.lease is not None and world.lease.over is not None
    assert world.lease.over["state"] == "failed" and world.lease.over["reason"] == reason
    assert max(world.committed) == generations


def test_a_wish_for_fewer_nodes_keeps_the_leader() -> None:
    world = training(3)
    first = world.leaders[0]
    for agent in world.living:
        agent.participant.wish(RULES.with_wish({"size": 1}))
    world.run_until(lambda: world.is_training(1), within_s=60.0, what="one node goes on")
    assert first.running is not None
    for agent in world.living:
        agent.participant.wish(RULES.with_wish({"size": 3}))
    world.run_until(lambda: world.is_training(3), within_s=60.0, what="all go on")


def test_an_abort_ends_the_run_for_every_agent() -> None:
    world = training(3)
    agent = member(world)
    agent.deliver(agent.participant.cancel)
    world.run_until(lambda: not world.living, within_s=30.0, what="all agents leave")
    assert world.lease is not None and world.lease.over is not None
    assert world.lease.over["state"] == "cancelled"


def test_a_notice_stops_the_ranks_in_time() -> None:
    world = training(3)
    agent = member(world)
    agent.deliver(lambda: agent.participant.leave(30.0))
    world.run_until(lambda: agent.is_done, within_s=31.0, what="it leaves")
    world.run_until(lambda: world.is_training(2), within_s=10.0, what="the others go on")
