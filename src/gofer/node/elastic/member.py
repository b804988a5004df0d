"""One member of an elastic run: its ranks, its licence to run them, and its heartbeats. Pure."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional

from gofer.node.elastic.actions import Action, KillRanks, RequestCheckpoint, StartRanks, StopRanks
from gofer.node.elastic.records import Generation, MemberBeat, MemberFacts, Order, RankResult
from gofer.node.elastic.rules import ElasticTiming

_KEPT_NUMBERS = 32


class Member:
    """What one agent does for the run, whoever the leader is. Times are seconds of one clock of this machine
    that never stops, not even while the machine sleeps.

    The member may run ranks only while it has a licence: until `licence_s` after it sent the last heartbeat
    that the leader has acknowledged.
    """

    def __init__(self, facts: MemberFacts, timing: ElasticTiming) -> None:
        self.facts = facts
        self.running = 0
        self.over: Optional[Dict[str, Any]] = None
        self.waits = ""
        self.licensed_until = -math.inf
        self.answered_at = -math.inf  # when the newest heartbeat that the leader has acknowledged was sent
        self.leaving_s: Optional[float] = None
        self.is_cancelled = False
        self.ordered_at = -math.inf
        self._timing = timing
        self._started = self._barred = self._boundary = self._asked = 0
        self._killed = self._stopped = 0
        self._result: Optional[RankResult] = None
        self._epoch = self._echo = self._number = 0
        self._sent_at: Dict[int, float] = {}

    @property
    def is_done(self) -> bool:
        """Whether this member has nothing more to do in the run."""
        return not self.running and (self.over is not None or self.leaving_s is not None)

    # -- events

    def obey(self, order: Order, now: float) -> List[Action]:
        """An order has come. Old and doubled orders, and those of an earlier leader, are ignored."""
        if order.epoch < self._epoch or (order.epoch == self._epoch and order.number <= self._echo):
            return []
        self._epoch, self._echo, self.ordered_at = order.epoch, order.number, now
        sent_at = self._sent_at.get(order.acknowledged)
        if sent_at is not None:
            self.answered_at = max(self.answered_at, sent_at)
            self.licensed_until = max(self.licensed_until, sent_at + self._timing.licence_s)
        if order.over is not None:
            self.over = order.over
        self.waits = order.waits
        return self._bar(order.stop) + self._run(order.run, now) + self._ask(order.asks_checkpoint)

    def ranks_ended(self, result: RankResult) -> None:
        """The ranks of a generation have ended, and no process of them is left."""
        if result.generation == self.running:
            self.running = 0
            self._result = result

    def checkpoint_written(self, generation: int) -> None:
        """The ranks of the generation have completed a checkpoint after a request."""
        if generation == self.running:
            self._boundary = max(self._boundary, generation)

    def tick(self, now: float) -> List[Action]:
        """Kill the ranks when the licence is over."""
        return self.fence(now) if self.running and now >= self.licensed_until else []

    def fence(self, now: float) -> List[Action]:
        """Kill the ranks, if there are any, and take back the licence."""
        self.licensed_until = min(self.licensed_until, now)
        if not self.running or self._killed >= self.running:
            return []
        self._killed = self.running
        return [KillRanks(self.running)]

    def new_leader(self) -> None:
        """A line to a leader was opened: heartbeats that were sent to another leader give no licence."""
        self._sent_at.clear()

    # -- heartbeats

    def state(self) -> MemberBeat:
        """The heartbeat without its number."""
        return MemberBeat(
            facts=self.facts,
            number=0,
            epoch=self._epoch,
            echo=self._echo,
            running=self.running,
            started=self._started,
            barred=self._barred,
            boundary=self._boundary,
            result=self._result,
            leaving_s=self.leaving_s,
            cancel=self.is_cancelled,
            farewell=self.is_done,
        )

    def beat(self, now: float) -> MemberBeat:
        """The next heartbeat, to be sent now."""
        self._number += 1
        self._sent_at[self._number] = now
        self._sent_at.pop(self._number - _KEPT_NUMBERS, None)
        return self.state()._replace(number=self._number)

    # -- orders

    def _bar(self, generation: int) -> List[Action]:
        self._barred = max(self._barred, generation)
        is_running = 0 < self.running <= self._barred
        if not is_running or self._stopped >= self.running:
            return []
        self._stopped = self.running
        return [StopRanks(self.running)]

    def _run(self, generation: Optional[Generation], now: float) -> List[Action]:
        """Start the ranks, at most once for each generation, and only with a licence."""
        if generation is None or self.running or now >= self.licensed_until:
            return []
        is_new = generation.number > max(self._started, self._barred)
        if not is_new or self.facts.word not in generation.words or self.is_done:
            return []
        self._started = self.running = generation.number
        self._result = None
        return [StartRanks(generation, generation.words.index(self.facts.word))]

    def _ask(self, generation: int) -> List[Action]:
        if not generation or generation != self.running or self._asked >= generation:
            return []
        self._asked = generation
        return [RequestCheckpoint(generation)]
