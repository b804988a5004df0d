"""A simulated cluster for the agents of an elastic run: clocks, lines, a store and ranks, all deterministic.

The agents are the real `Participant`, with the real rules. What the simulation replaces is their I/O: lines
that lose, double and delay messages, a store that goes away, answers late and loses answers, and machines
that die, freeze, are cut off and come back. The clocks of the agents begin anywhere and differ in their rate.

After every step the simulation checks what must hold: ranks of two generations never run at the same time, a
generation is committed once and never changes, and no rank starts twice or for a generation that is not
committed.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

from gofer.node.elastic import actions, records
from gofer.node.elastic.actions import Action
from gofer.node.elastic.participant import Participant
from gofer.node.elastic.records import Generation, LeaderLease, MemberFacts, RankResult
from gofer.node.elastic.rules import ElasticRules, ElasticTiming

_TICK_S = 0.2
_WATCHDOG_S = 0.5


class BrokenInvariant(AssertionError):
    """Something happened that must never happen."""


class SimulatedStore:
    """One object with conditional writes, away for some agents or for all."""

    def __init__(self) -> None:
        self.values: list[LeaderLease | None] = [None]
        self.is_away = False

    @property
    def version(self) -> int:
        return len(self.values) - 1

    def write(self, lease: LeaderLease, version: int) -> bool:
        if version != self.version:
            return False
        self.values.append(lease)
        return True


class SimulatedAgent:
    """One agent on one machine: a participant, its line to the leader, and its ranks."""

    def __init__(self, world: World, slot: int, number: int) -> None:
        chance = world.chance
        self.world = world
        self.slot = slot
        self.port = number
        self.offset = chance.uniform(-1e6, 1e6)
        self.rate = 1.0 + chance.uniform(-0.005, 0.005)
        self.is_alive = True
        self.is_frozen = False
        self.has_frozen_ranks = False
        self.has_machine = True
        self.is_done = False
        self.line: tuple[int, SimulatedAgent] | None = None
        self.lines_in: dict[str, tuple[int, SimulatedAgent]] = {}
        self.version = 0
        self.running: Generation | None = None
        self._held: list[Callable[[], None]] = []
        facts = MemberFacts(f"w{number}", f"host{slot}", f"10.0.0.{slot}", number, 9000 + number, slot=slot)
        self.participant = Participant(world.rules, world.timing, facts, self.now)
        self.step()

    @property
    def now(self) -> float:
        return self.offset + self.world.now * self.rate

    @property
    def writes(self) -> bool:
        """Whether ranks of this agent could write now."""
        return self.running is not None and not (self.is_frozen and self.has_frozen_ranks)

    def deliver(self, event: Callable[[], None]) -> None:
        """Hand an event to the agent: now, or when it is no longer frozen."""
        if not self.is_alive or self.is_done:
            return
        if self.is_frozen:
            self._held.append(event)
        else:
            event()
            self.step()

    def tick(self) -> None:
        """The regular tick, as long as the agent lives."""
        if self.is_alive and not self.is_done:
            self.deliver(lambda: None) if not self.is_frozen else None
            self.world.after(_TICK_S * self.world.chance.uniform(0.8, 1.2), self.tick)

    def step(self) -> None:
        for action in self.participant.tick(self.now):
            if self.is_alive and not self.is_done:
                self._do(action)

    # -- faults

    def die(self, *, with_machine: bool) -> None:
        self.is_alive, self.has_machine, self.running = False, not with_machine, None
        if not with_machine:
            self._close_lines()

    def freeze(self, *, with_ranks: bool) -> None:
        """Freeze the agent. Without its ranks, the watchdog beside them acts when the licence is over."""
        self.is_frozen, self.has_frozen_ranks = True, with_ranks
        licensed_s = self.participant.member.licensed_until - self.now
        if not with_ranks:
            self.world.after(max(0.0, licensed_s) + _WATCHDOG_S, self._end_unwatched)

    def _end_unwatched(self) -> None:
        """The process that starts the ranks sees for itself that the licence is over, and kills them."""
        if self.is_frozen and not self.has_frozen_ranks and self.running is not None:
            number, self.running = self.running.number, None
            result = RankResult(number, records.STOPPED)
            self._held.append(lambda: self._report(result))

    def thaw(self) -> None:
        self.is_frozen = self.has_frozen_ranks = False
        if not self.is_alive:
            return
        self.step()  # a process that wakes up looks at its clock before it reads anything
        held, self._held = self._held, []
        for event in held:
            self.deliver(event)

    def _close_lines(self) -> None:
        if self.line is not None:
            (_, leader), word = self.line, self.participant.word
            self.world.send(
                self, leader, lambda: leader.participant.member_disconnected(word, leader.now), lossy=False
            )
        for line, member in self.lines_in.values():
            self.world.send(self, member, lambda m=member, n=line: m.lost_line(n), lossy=False)  # type: ignore[misc]

    def lost_line(self, number: int) -> None:
        if self.line is not None and self.line[0] == number:
            self.line = None
            self.participant.disconnected(self.now)

    # -- actions

    def _do(self, action: Action) -> None:
        world = self.world
        if isinstance(action, actions.ReadLease):
            world.read(self)
        elif isinstance(action, actions.WriteLease):
            world.write(self, action.lease)
        elif isinstance(action, actions.ConnectLeader):
            world.connect(self, action.port)
        elif isinstance(action, actions.DisconnectLeader):
            self.line = None
        elif isinstance(action, actions.DialMember):
            world.dial(self, action.word, action.port)
        elif isinstance(action, actions.SendBeat):
            self._send_beat(action.beat)
        elif isinstance(action, actions.SendOrder):
            self._send_order(action)
        else:
            self._do_with_ranks(action)

    def _send_beat(self, beat: records.MemberBeat) -> None:
        if self.line is None:
            return
        number, leader = self.line
        coded = records.decode_beat(beat.encode())

        def arrive() -> None:
            leader.lines_in[coded.facts.word] = (number, self)
            leader.participant.receive_beat(coded, leader.now)

        self.world.send(self, leader, arrive)

    def _send_order(self, action: actions.SendOrder) -> None:
        found = self.lines_in.get(action.word)
        if found is None:
            return
        number, member = found
        order = records.decode_order(action.order.encode())

        def arrive() -> None:
            if member.line is not None and member.line[0] == number:
                member.participant.receive_order(order, member.now)

        self.world.send(self, member, arrive)

    def _do_with_ranks(self, action: Action) -> None:
        world = self.world
        if isinstance(action, actions.StartRanks):
            world.started(self, action.generation, action.node)
        elif isinstance(action, actions.StopRanks):
            world.after(
                world.chance.uniform(0.0, 5.0), lambda: self.end_ranks(action.generation, records.STOPPED)
            )
        elif isinstance(action, actions.KillRanks):
            self.end_ranks(action.generation, records.STOPPED)
        elif isinstance(action, actions.RequestCheckpoint):
            world.after(world.chance.uniform(0.5, 20.0), lambda: self._checkpoint(action.generation))
        elif isinstance(action, actions.NoteEnd):
            world.ends.append(action)
        elif isinstance(action, actions.LeaveRun):
            self.is_done = True
            world.check(self.running is None, "an agent left while its ranks ran")

    def end_ranks(self, number: int, state: str, reason: str | None = None) -> None:
        if self.running is None or self.running.number != number or not self.is_alive:
            return
        if self.is_frozen:  # a frozen process ends when it thaws
            self._held.append(lambda: self.end_ranks(number, state, reason))
            return
        self.running = None
        result = RankResult(number, state, reason, exit_code=0 if state == records.SUCCEEDED else 1)
        self.world.after(0.02, lambda: self.deliver(lambda: self._report(result)))

    def _report(self, result: RankResult) -> None:
        self.participant.ranks_ended(result, 9000 + self.world.chance.randrange(1000))

    def _checkpoint(self, number: int) -> None:
        if self.running is not None and self.running.number == number:
            self.deliver(lambda: self.participant.checkpoint_written(number))


class World:
    """Everything outside the agents. `after` calls something later; `run` lets time pass."""

    def __init__(self, seed: int, rules: ElasticRules, *, is_calm: bool = False) -> None:
        self.chance = random.Random(seed)
        self.rules = rules
        self.timing = ElasticTiming()
        self.now = 0.0
        self.loss = self.doubled = self.unanswered = 0.0 if is_calm else 0.02
        self.late = 0.0 if is_calm else 0.01
        self.store = SimulatedStore()
        self.agents: dict[int, SimulatedAgent] = {}  # the present agent of each slot
        self.by_port: dict[int, SimulatedAgent] = {}
        self.cut: set[int] = set()  # slots whose lines carry nothing
        self.no_store: set[int] = set()  # slots that cannot reach the store
        self.committed: dict[int, Generation] = {}
        self.ends: list[actions.NoteEnd] = []
        self.starts: set[tuple[int, int]] = set()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)

    # -- time

    def after(self, delay_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay_s, next(self._numbers), event))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            self.now, _, event = heapq.heappop(self._queue)
            event()
            self._check_ranks()
        self.now = until

    def run_until(self, condition: Callable[[], bool], *, within_s: float, what: str) -> float:
        """Let time pass until the condition holds; how long that took."""
        began = self.now
        while not condition():
            self.check(self.now < began + within_s, f"{what}: not within {within_s:g} s")
            self.run(0.1)
        return self.now - began

    def check(self, holds: bool, words: str) -> None:
        if not holds:
            raise BrokenInvariant(f"at {self.now:.3f} s: {words}")

    # -- agents

    def add(self, slot: int) -> SimulatedAgent:
        number = next(self._numbers)
        agent = SimulatedAgent(self, slot, number)
        self.agents[slot] = self.by_port[number] = agent
        agent.tick()
        return agent

    @property
    def living(self) -> list[SimulatedAgent]:
        return [one for one in self.agents.values() if one.is_alive and not one.is_done]

    @property
    def leaders(self) -> list[SimulatedAgent]:
        return [one for one in self.living if one.participant.leader is not None]

    @property
    def lease(self) -> LeaderLease | None:
        return self.store.values[-1]

    def is_training(self, nodes: int) -> bool:
        """Whether the last generation has so many members, and all its ranks run."""
        last = self.committed.get(max(self.committed, default=0))
        running = {one.participant.word for one in self.living if one.running is not None and one.writes}
        return last is not None and len(last.members) == nodes and set(last.words) == running

    def is_over(self) -> bool:
        return self.lease is not None and self.lease.over is not None

    # -- lines

    def _is_cut(self, one: SimulatedAgent, other: SimulatedAgent) -> bool:
        return one.slot != other.slot and bool(self.cut & {one.slot, other.slot})

    def send(
        self, one: SimulatedAgent, other: SimulatedAgent, event: Callable[[], None], *, lossy: bool = True
    ) -> None:
        chance = self.chance
        for _ in range(2 if lossy and chance.random() < self.doubled else 1):
            if lossy and chance.random() < self.loss:
                continue
            # Most messages are fast. A few arrive very late, as after a repaired line.
            delay_s = (
                chance.uniform(0.001, 0.03) if chance.random() >= self.late else chance.uniform(0.1, 8.0)
            )

            def arrive() -> None:
                if other.has_machine and not self._is_cut(one, other):
                    other.deliver(event)

            self.after(delay_s, arrive)

    def connect(self, one: SimulatedAgent, port: int) -> None:
        other = self.by_port[port]
        number = next(self._numbers)

        def answer() -> None:
            if not other.has_machine or self._is_cut(one, other):
                self.after(3.0, lambda: one.deliver(lambda: fail(False)))
            elif not other.is_alive or other.is_done:
                one.deliver(lambda: fail(True))
            else:
                one.deliver(succeed)

        def fail(is_refused: bool) -> None:
            one.participant.connect_failed(is_refused=is_refused, now=one.now)

        def succeed() -> None:
            if one.participant.leader is None:
                one.line = (number, other)
                one.participant.connected(one.now)

        self.after(self.chance.uniform(0.001, 0.05), answer)

    def dial(self, one: SimulatedAgent, word: str, port: int) -> None:
        other = self.by_port[port]

        def answer() -> None:
            if not other.has_machine or self._is_cut(one, other):
                return
            is_refused = not other.is_alive or other.is_done
            one.deliver(lambda: one.participant.dialled(word, is_refused=is_refused, now=one.now))

        self.after(self.chance.uniform(0.001, 0.05), answer)

    # -- the store

    def _reaches_store(self, one: SimulatedAgent) -> bool:
        return not self.store.is_away and one.slot not in self.no_store

    def read(self, one: SimulatedAgent) -> None:
        def ask() -> None:
            if not self._reaches_store(one) or self.chance.random() < self.unanswered:
                self.after(2.0, lambda: one.deliver(lambda: one.participant.store_failed(one.now)))
                return
            is_stale = self.chance.random() < self.unanswered and self.store.version > 1
            version = self.store.version - is_stale
            lease = self.store.values[version]
            self.after(self._delay(), lambda: one.deliver(lambda: answer(lease, version)))

        def answer(lease: LeaderLease | None, version: int) -> None:
            one.version = version
            one.participant.lease_read(lease, one.now)

        self.after(self._delay(), ask)

    def write(self, one: SimulatedAgent, lease: LeaderLease) -> None:
        coded = records.decode_lease(lease.encode())
        version = one.version
        answered: list[bool] = []

        def arrive() -> None:
            if not self._reaches_store(one):
                return
            is_written = self.store.write(coded, version)
            if is_written:
                self._check_commit(coded)
            if self.chance.random() >= self.unanswered:  # else the answer is lost
                self.after(self._delay(), lambda: answer(is_written, version + 1))

        def answer(is_written: bool, now_version: int) -> None:
            if answered:
                return
            answered.append(True)
            one.deliver(lambda: finish(is_written, now_version))

        def finish(is_written: bool, now_version: int) -> None:
            if is_written:
                one.version = now_version
                one.participant.lease_written(one.now)
            else:
                one.participant.lease_conflict(one.now)

        def give_up() -> None:
            if not answered:
                answered.append(True)
                one.deliver(lambda: one.participant.store_failed(one.now))

        # A write can arrive after its writer has given it up.
        self.after(
            self.chance.uniform(1.0, 6.0) if self.chance.random() < self.unanswered else self._delay(), arrive
        )
        self.after(2.0, give_up)

    def _delay(self) -> float:
        return self.chance.uniform(0.002, 0.08)

    # -- what must hold

    def _check_commit(self, lease: LeaderLease) -> None:
        generation = lease.generation
        known = self.committed.setdefault(generation.number, generation)
        self.check(known.words == generation.words, f"generation {generation.number} was committed twice")
        self.check(generation.number == max(self.committed), "the number of the generation went down")
        if generation.number:
            self.check(
                self.rules.min_nodes <= len(generation.members) <= self.rules.max_nodes,
                f"generation {generation.number} has {len(generation.members)} members",
            )

    def started(self, agent: SimulatedAgent, generation: Generation, node: int) -> None:
        number = generation.number
        self.check(number in self.committed, f"ranks of generation {number} started before its commit")
        self.check(self.committed[number].words == generation.words, "ranks of another generation started")
        self.check((number, node) not in self.starts, f"node {node} of generation {number} started twice")
        self.check(generation.words[node] == agent.participant.word, "an agent took another's place")
        self.starts.add((number, node))
        agent.running = generation

    def _check_ranks(self) -> None:
        running = {
            one.running.number for one in self.by_port.values() if one.running is not None and one.writes
        }
        self.check(len(running) < 2, f"ranks of the generations {sorted(running)} run at the same time")
