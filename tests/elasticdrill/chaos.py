"""Random faults in a simulated cluster, and the proof afterwards that the run goes on and ends."""

from __future__ import annotations

import collections
from collections.abc import Callable

from elasticdrill.simulation import SimulatedAgent, World
from gofer.node.elastic import records
from gofer.node.elastic.rules import ElasticRules

MIN_NODES, MAX_NODES = 1, 6
# With everything mended, a generation trains within this time: the longest wait of an agent, and some more.
_RECOVERED_S = 400.0


class Chaos:
    """Faults at random moments. Everything follows from the seed."""

    def __init__(self, seed: int, *, slots: int = 6) -> None:
        rules = ElasticRules(
            MIN_NODES,
            MAX_NODES,
            join_every_s=20.0,
            join_patience_s=30.0,
            retries=10**9,
            retry_on=("exit-code",),
        )
        self.world = World(seed, rules)
        self.done: collections.Counter[str] = collections.Counter()
        self._slots = slots
        self._chance = self.world.chance
        for slot in range(slots):
            self.world.add(slot)
        self._faults: list[tuple[int, Callable[[], bool]]] = [
            (10, self.kill_agent),
            (6, self.lose_machine),
            (5, self.kill_leader),
            (6, self.cut_machine),
            (4, self.freeze_machine),
            (4, self.freeze_agent),
            (2, self.lose_store),
            (4, self.lose_store_for_one),
            (4, self.lose_store_and_line),
            (6, self.fail_rank),
            (4, self.take_back),
            (2, self.kill_all),
        ]

    def run(self, events: int) -> None:
        """Make so many events. BrokenInvariant when something happens that must not."""
        while self.done.total() < events:
            weights = [weight for weight, _ in self._faults]
            [(_, fault)] = self._chance.choices(self._faults, weights)
            if fault():
                self.done[fault.__name__] += 1
            # Often the next fault comes before the last one is dealt with.
            self.world.run(self._chance.choice((0.05, 0.3, 1.0, 3.0, 8.0, 20.0, 40.0)))

    def finish(self) -> None:
        """Mend everything: the run trains with all nodes, and ends with success."""
        world = self.world
        world.cut.clear()
        world.no_store.clear()
        world.store.is_away = False
        world.loss = 0.0
        for agent in list(world.agents.values()):
            if agent.is_frozen:
                agent.thaw()
        # Let the ends of faults that were planned pass, and agents that were to come arrive.
        world.run(70.0)
        world.run_until(lambda: world.is_training(self._slots), within_s=_RECOVERED_S, what="all nodes train")
        number = max(world.committed)
        for agent in world.living:
            agent.end_ranks(number, records.SUCCEEDED)
        world.run_until(world.is_over, within_s=_RECOVERED_S, what="the run ends")
        assert world.lease is not None and world.lease.over is not None
        world.check(world.lease.over["state"] == "succeeded", f"the run ended: {world.lease.over}")
        world.run_until(lambda: not world.living, within_s=_RECOVERED_S, what="all agents leave")
        ended = [note.generation.number for note in world.ends]
        world.check(max(ended) == number, "nobody wrote down how the last generation ended")

    # -- faults; each says whether it could be made

    def _pick(self, *, leader: bool | None = None) -> SimulatedAgent | None:
        found = [
            one
            for one in self.world.living
            if leader is None or (one.participant.leader is not None) == leader
        ]
        return self._chance.choice(found) if found else None

    def _replace(self, agent: SimulatedAgent, *, after_s: float) -> None:
        """The cluster starts another agent in the place of one that is gone."""
        slot = agent.slot

        def start() -> None:
            if self.world.agents[slot] is agent and not self.world.is_over():
                agent.is_alive = False
                self.world.add(slot)

        self.world.after(after_s, start)

    def kill_agent(self) -> bool:
        return self._kill(self._pick(), with_machine=False)

    def lose_machine(self) -> bool:
        return self._kill(self._pick(), with_machine=True)

    def kill_leader(self) -> bool:
        return self._kill(self._pick(leader=True), with_machine=self._chance.random() < 0.5)

    def _kill(self, agent: SimulatedAgent | None, *, with_machine: bool) -> bool:
        if agent is None:
            return False
        agent.die(with_machine=with_machine)
        self._replace(agent, after_s=self._chance.uniform(0.1, 40.0))
        return True

    def kill_all(self) -> bool:
        """Every agent dies, as after a power cut, and all come back."""
        for agent in self.world.living:
            agent.die(with_machine=False)
            self._replace(agent, after_s=self._chance.uniform(0.1, 10.0))
        return True

    def cut_machine(self) -> bool:
        agent = self._pick()
        if agent is None:
            return False
        self.world.cut.add(agent.slot)
        self.world.after(self._chance.uniform(0.5, 40.0), lambda: self.world.cut.discard(agent.slot))
        return True

    def _freeze(self, *, with_ranks: bool) -> bool:
        agent = self._pick()
        if agent is None or agent.is_frozen:
            return False
        agent.freeze(with_ranks=with_ranks)
        self.world.after(self._chance.uniform(0.5, 60.0), agent.thaw)
        return True

    def freeze_machine(self) -> bool:
        return self._freeze(with_ranks=True)

    def freeze_agent(self) -> bool:
        return self._freeze(with_ranks=False)

    def lose_store(self) -> bool:
        self.world.store.is_away = True

        def back() -> None:
            self.world.store.is_away = False

        self.world.after(self._chance.uniform(1.0, 60.0), back)
        return True

    def lose_store_for_one(self) -> bool:
        agent = self._pick()
        if agent is None:
            return False
        self.world.no_store.add(agent.slot)
        self.world.after(self._chance.uniform(1.0, 60.0), lambda: self.world.no_store.discard(agent.slot))
        return True

    def lose_store_and_line(self) -> bool:
        """The leader loses the store and its lines at once: the case in which two leaders are likely."""
        agent = self._pick(leader=True)
        if agent is None:
            return False
        slot = agent.slot
        self.world.no_store.add(slot)
        self.world.after(self._chance.uniform(0.0, 6.0), lambda: self.world.cut.add(slot))
        self.world.after(self._chance.uniform(6.0, 60.0), lambda: self.world.cut.discard(slot))
        self.world.after(self._chance.uniform(1.0, 60.0), lambda: self.world.no_store.discard(slot))
        return True

    def fail_rank(self) -> bool:
        running = [one for one in self.world.living if one.running is not None]
        if not running:
            return False
        agent = self._chance.choice(running)
        assert agent.running is not None
        agent.end_ranks(agent.running.number, records.FAILED, "exit-code")
        return True

    def take_back(self) -> bool:
        """The cluster takes a machine back, with notice."""
        agent = self._pick()
        if agent is None or agent.is_frozen:
            return False
        notice_s = self._chance.uniform(2.0, 30.0)
        agent.deliver(lambda: agent.participant.leave(notice_s))
        self.world.after(notice_s, lambda: agent.die(with_machine=True))
        self._replace(agent, after_s=notice_s + self._chance.uniform(0.1, 20.0))
        return True


def drill(seed: int, events: int) -> Chaos:
    chaos = Chaos(seed)
    chaos.run(events)
    chaos.finish()
    return chaos
