"""The leader of an elastic run: who is in the next generation, when it begins, and how the run ends.

Pure: heartbeats, answers of the store and the time come in, actions go out. The leader keeps no clock and
does no I/O. A leader that has lost its lease is thrown away.
"""

from __future__ import annotations

import enum
import math
from typing import Any, Dict, List, NamedTuple, Optional, Set

from gofer.core.states import Reason, State
from gofer.node.elastic import records
from gofer.node.elastic.actions import (
    Action,
    DialMember,
    LeaveRun,
    NoteEnd,
    NoteGeneration,
    SendOrder,
    WriteLease,
)
from gofer.node.elastic.records import Generation, LeaderLease, MemberBeat, MemberFacts, Order, RankResult
from gofer.node.elastic.rules import JOIN_NEVER, JOIN_NOW, ElasticRules, ElasticTiming

_KEPT_NUMBERS = 32


class _Phase(enum.Enum):
    """RUNNING: the generation of the lease runs. STOPPING: its ranks end. FORMING: none runs, and the next is
    formed. OVER: the outcome of the run is decided.
    """

    RUNNING = 1
    STOPPING = 2
    FORMING = 3
    OVER = 4


class _KnownMember:
    """What the leader knows of a member. `gone` says why it counts as gone; None while it does not."""

    def __init__(self, facts: MemberFacts, now: float) -> None:
        self.facts = facts
        self.beat: Optional[MemberBeat] = None
        self.joined_at = now
        self.heard_at = -math.inf
        # When the leader sent the newest order that the member has answered: the line worked after this time.
        self.answered_at = -math.inf
        self.leaving_at: Optional[float] = None
        self.gone: Optional[str] = None
        self.gone_at = -math.inf
        self.fenced_at = -math.inf
        self.is_back = False  # it was gone, and its line works again while its ranks still run
        self.dialled_at = -math.inf
        self.is_suspect = False  # its line was closed, and it has not been heard since
        self.order = Order(0, 0)
        self.ordered_at = -math.inf
        self.sent_at: Dict[int, float] = {}

    def receive(self, beat: MemberBeat, now: float, *, epoch: int) -> None:
        self.beat, self.facts, self.heard_at, self.is_suspect = beat, beat.facts, now, False
        if beat.epoch == epoch:  # earlier leaders had numbers of their own
            self.answered_at = max(self.answered_at, self.sent_at.get(beat.echo, -math.inf))
        if beat.leaving_s is not None and self.leaving_at is None:
            self.leaving_at = now + beat.leaving_s

    def result_of(self, generation: int) -> Optional[RankResult]:
        result = None if self.beat is None else self.beat.result
        return result if result is not None and result.generation == generation else None


class _Failure(NamedTuple):
    """The first failure of the command in a generation."""

    facts: MemberFacts
    result: RankResult
    at: float


class Leader:
    """The leader, from the write that took the lease to its end. `taken` is that lease, and `written_at` the
    time at which that write was sent.
    """

    def __init__(
        self, rules: ElasticRules, timing: ElasticTiming, taken: LeaderLease, *, now: float, written_at: float
    ) -> None:
        self.rules = rules
        self.lease = taken
        self._timing = timing
        self._members: Dict[str, _KnownMember] = {}
        self._written_at = written_at
        self._pending: Optional[LeaderLease] = None
        self._try_at = -math.inf
        self._failure: Optional[_Failure] = None
        self._failures = taken.failures
        self._ending: Optional[Dict[str, Any]] = None
        self._why = ""
        self._asked_at: Optional[float] = None
        self._asked_why = ""
        self._joined_at = -math.inf
        self._is_join = False
        self._over_at = now
        self._noted = 0
        self._actions: List[Action] = []
        self._ends: List[Action] = []
        self._phase = _Phase.FORMING
        if taken.over is not None:
            self._phase = _Phase.OVER
        elif taken.generation.number:
            self._take_over(now)

    def _take_over(self, now: float) -> None:
        """The generation of an earlier leader: its members join, are found dead, or count as fenced after
        some time.
        """
        self._phase, self._why = _Phase.STOPPING, "the leader was lost"
        old = self.lease.generation
        self._actions.append(NoteGeneration(old))
        is_witness = self.lease.word in old.words
        wait_s = self._timing.takeover_s if is_witness else self._timing.stranger_s
        for facts in old.members:
            known = self._members[facts.word] = _KnownMember(facts, now)
            known.gone, known.gone_at, known.fenced_at = "its agent does not answer", now, now + wait_s
            self._dial(known, now)

    # -- events

    def receive(self, beat: MemberBeat, now: float) -> None:
        """A heartbeat has come. Old and doubled heartbeats are ignored."""
        known = self._members.get(beat.facts.word)
        if known is None:
            known = self._members[beat.facts.word] = _KnownMember(beat.facts, now)
            known.gone = "it ran ranks of a generation that is over" if beat.running else None
        elif known.beat is not None and beat.number <= known.beat.number:
            return
        if known.gone is not None:
            if beat.running:  # it gets orders, and no licence until its ranks have ended
                known.beat, known.is_back = beat, True
                return
            known.gone, known.is_back, known.joined_at = None, False, now
        known.receive(beat, now, epoch=self.lease.epoch)
        if beat.cancel and self._ending is None:
            self._ending = _outcome(State.CANCELLED, Reason.USER, "aborted")
        if beat.farewell and self._phase != _Phase.OVER:
            self._lose(known, "it ended", now, fenced_at=now)

    def disconnected(self, word: str, now: float) -> None:
        """The line to a member is closed, which is only a hint: something between may have closed it."""
        known = self._members.get(word)
        if known is not None and known.gone is None:
            known.is_suspect = True
            self._dial(known, now)

    def dialled(self, word: str, *, is_refused: bool, now: float) -> None:
        """A member's agent was called. Where nothing listens any more, the agent and its ranks are dead."""
        known = self._members.get(word)
        if known is not None and is_refused:
            self._lose(known, "its agent was killed", now, fenced_at=now)

    def written(self, lease: LeaderLease, sent_at: float, now: float) -> None:
        """A write of this leader has arrived in the store: `lease`, sent at `sent_at`."""
        self._pending = None
        earlier, self.lease = self.lease, lease
        if lease.over is not None or lease.generation.number > earlier.generation.number:
            self._actions += self._ends  # a leader that has lost its lease must not say how it ended
            self._ends = []
        self._written_at = max(self._written_at, sent_at)
        if lease.over is not None:
            if self._phase != _Phase.OVER:
                self._phase, self._over_at = _Phase.OVER, now
        elif lease.generation.number > earlier.generation.number:
            self._begin(now)

    def write_failed(self, now: float) -> None:
        """The store does not answer, and the last write is not in it."""
        self._pending = None
        self._try_at = now + self._timing.read_s

    def tick(self, now: float) -> List[Action]:
        """What to do now. Call it after every event, and at least every fraction of a second."""
        self._look_for_lost(now)
        self._advance(now)
        self._renew(now)
        for known in self._members.values():
            self._send_order(known, now)
        actions, self._actions = self._actions, []
        return actions

    # -- members

    def _look_for_lost(self, now: float) -> None:
        timing, present = self._timing, self.lease.generation.words
        for word, known in list(self._members.items()):
            if known.gone is None and now - known.heard_at > timing.silent_s:
                until = known.heard_at + timing.silent_s + timing.margin_s
                self._lose(known, f"no heartbeat for {timing.silent_s:g} s", now, fenced_at=until)
            # A process that is being killed can close its line before it stops to listen.
            if known.gone is None and known.is_suspect and now >= known.dialled_at + timing.read_s:
                self._dial(known, now)
            if known.gone is None or known.is_back:
                continue
            if now >= known.fenced_at:
                if word not in present:
                    del self._members[word]
            elif now >= known.dialled_at + timing.silent_s:
                self._dial(known, now)

    def _dial(self, known: _KnownMember, now: float) -> None:
        known.dialled_at = now
        facts = known.facts
        self._actions.append(DialMember(facts.word, facts.address, facts.port))

    def _lose(self, known: _KnownMember, why: str, now: float, *, fenced_at: float) -> None:
        known.is_back = False
        if known.gone is None:
            known.gone, known.gone_at, known.fenced_at = why, now, fenced_at
        known.fenced_at = min(known.fenced_at, fenced_at)
        known.leaving_at = None

    def _is_clear(self, known: _KnownMember, generation: int, now: float) -> bool:
        """Whether no rank of the generation runs on the member, now or later."""
        beat = known.beat
        if beat is not None and beat.barred >= generation and not beat.running:
            return True
        return known.gone is not None and now >= known.fenced_at

    def _free(self, now: float) -> List[_KnownMember]:
        """The members that could be in a new generation: those of the last one first, in their order."""
        number, order = self.lease.generation.number, self.lease.generation.words
        barred = number - 1 if self._phase == _Phase.RUNNING else number
        found = [
            known
            for known in self._members.values()
            if known.gone is None
            and known.beat is not None
            and not known.beat.running
            and not known.beat.cancel
            and known.beat.barred >= barred
            and known.leaving_at is None
            and now - known.heard_at <= self._timing.silent_s
        ]
        place = {word: index for index, word in enumerate(order)}
        return sorted(found, key=lambda one: (place.get(one.facts.word, len(place)), one.joined_at))

    def _present(self) -> List[_KnownMember]:
        words = self.lease.generation.words
        return [self._members[word] for word in words if word in self._members]

    # -- the phases

    def _advance(self, now: float) -> None:
        if self._phase == _Phase.RUNNING:
            self._watch_generation(now)
        if self._phase == _Phase.STOPPING and self._is_stopped(now):
            self._judge(now)
        if self._phase == _Phase.FORMING and self._pending is None and now >= self._try_at:
            self._form(now)
        if self._phase == _Phase.OVER:
            self._dismiss(now)

    def _watch_generation(self, now: float) -> None:
        done = self._succeeded()
        if self._ending is not None or len(done) == len(self.lease.generation.members):
            self._stop("aborted")
            return
        for known in self._present():
            if known.facts.word not in done:
                self._watch_member(known, known.result_of(self.lease.generation.number), now)
        if self._phase == _Phase.RUNNING:
            self._consider_change(done, now)

    def _succeeded(self) -> Set[str]:
        """The members of the generation whose ranks have all ended with success."""
        number = self.lease.generation.number
        results = {one.facts.word: one.result_of(number) for one in self._present()}
        return {word for word, found in results.items() if found and found.state == records.SUCCEEDED}

    def _watch_member(self, known: _KnownMember, result: Optional[RankResult], now: float) -> None:
        if known.gone is not None:
            self._stop(f"{known.facts.name} is gone: {known.gone}")
        elif result is not None and result.restart and self._asked_at is not None:
            self._stop(self._asked_why)
        elif result is not None and result.state == records.FAILED:
            if self._failure is None:
                self._failure = _Failure(known.facts, result, now)
            self._stop("the command failed")
        elif self._is_fenced(known):
            self._stop(f"{known.facts.name} was out of touch")

    def _is_fenced(self, known: _KnownMember) -> bool:
        """Whether the member has stopped ranks that nobody told it to stop."""
        beat, number = known.beat, self.lease.generation.number
        return beat is not None and beat.started == number and not beat.running

    def _stop(self, why: str) -> None:
        if self._phase == _Phase.RUNNING:
            self._phase, self._why = _Phase.STOPPING, why

    def _consider_change(self, done: Set[str], now: float) -> None:
        """Ask for a checkpoint where the membership should change, and change it at the checkpoint."""
        change = None if done else self._wanted_change(now)
        if change is None:
            self._asked_at = None
            return
        self._asked_why, deadline_s = change
        if self._asked_at is None:
            self._asked_at = now
        number = self.lease.generation.number
        is_reached = any(one.beat is not None and one.beat.boundary >= number for one in self._present())
        if is_reached or now >= self._asked_at + deadline_s:
            self._stop(self._asked_why)

    def _wanted_change(self, now: float) -> Optional[_Change]:
        rules, present = self.rules, self._present()
        patience_s = math.inf if rules.join_patience_s is None else rules.join_patience_s
        if rules.join == JOIN_NOW:
            patience_s = 0.0
        leaving = [one for one in present if one.leaving_at is not None]
        if leaving:
            until = min(one.leaving_at or 0.0 for one in leaving) - rules.leave_grace_s
            asked_at = now if self._asked_at is None else self._asked_at
            return _Change(f"{_names(leaving)} must leave", max(0.0, until - asked_at))
        if len(present) > rules.most:
            return _Change(f"{rules.most} nodes are wished", patience_s)
        words = self.lease.generation.words
        arrived = [one for one in self._free(now) if one.facts.word not in words]
        if not arrived or len(present) >= rules.most or rules.join == JOIN_NEVER:
            return None
        if now < self._joined_at + rules.join_every_s:
            return None
        return _Change(f"{_names(arrived[: rules.most - len(present)])} joined", patience_s)

    def _is_stopped(self, now: float) -> bool:
        number = self.lease.generation.number
        return all(self._is_clear(one, number, now) for one in self._present())

    def _judge(self, now: float) -> None:
        """All ranks have ended: what it means for the run."""
        failure, self._failure = self._failure, None
        if len(self._succeeded()) == len(self.lease.generation.members):
            self._ending = _outcome(State.SUCCEEDED, None, None, 0)
        if self._ending is None and failure is not None and not self._is_consequence(failure):
            self._count(failure)
        elif self._ending is None:
            self._note(State.LOST, Reason.MEMBERSHIP, self._why)
        else:
            self._note_outcome(self._ending)
        self._phase = _Phase.FORMING

    def _is_consequence(self, failure: _Failure) -> bool:
        """Whether a member was lost at about the time of the failure. Ranks fail when a peer is gone, often
        before the leader knows of it.
        """
        within_s, done = self._timing.consequence_s, self._succeeded()
        for known in self._present():
            if known.gone is not None and known.facts.word not in done:
                times = (known.heard_at, known.gone_at)
                if any(abs(at - failure.at) <= within_s for at in times):
                    self._why = f"{known.facts.name} is gone: {known.gone}"
                    return True
        return False

    def _count(self, failure: _Failure) -> None:
        rules, result = self.rules, failure.result
        self._failures += 1
        detail = f"{result.detail or 'the command failed'} on {failure.facts.name}"
        outcome = _outcome(State.FAILED, result.reason, detail, result.exit_code)
        self._note_outcome(outcome)
        if self._failures > rules.retries or result.reason not in rules.retry_on:
            self._ending = outcome
        self._why = f"{detail}; retry {self._failures} of {rules.retries}"

    def _note_outcome(self, outcome: Dict[str, Any]) -> None:
        self._note(outcome["state"], outcome["reason"], outcome["detail"] or "", outcome["exit_code"])

    def _note(self, state: str, reason: Optional[str], detail: str, exit_code: Optional[int] = None) -> None:
        generation = self.lease.generation
        if generation.number > self._noted:
            self._noted = generation.number
            self._ends.append(NoteEnd(generation, str(state), reason and str(reason), detail, exit_code))

    # -- the next generation

    def _form(self, now: float) -> None:
        """Begin the next generation, or write down the end of the run, once that can be done."""
        if self._ending is not None:
            self._write(self.lease._replace(over=self._ending, failures=self._failures))
            return
        me = self.lease.word
        if me in self._members and self._members[me].leaving_at is not None:
            self._actions.append(LeaveRun())  # another leader forms the generation: this one would not last
            return
        found = self._free(now)
        chosen = found[: self.rules.most]
        if len(chosen) < self.rules.min_nodes:
            return
        if me not in [one.facts.word for one in chosen]:
            chosen[-1:] = [one for one in found if one.facts.word == me] or chosen[-1:]
        settled_at = max(one.joined_at for one in found) + self.rules.settle_s
        if not self.lease.generation.number and len(chosen) < self.rules.most and now < settled_at:
            return
        number = self.lease.generation.number + 1
        members = tuple(one.facts for one in chosen)
        self._is_join = any(one.word not in self.lease.generation.words for one in members)
        generation = Generation(number, members, members[0].rank_port, self._why or "the run began")
        self._write(self.lease._replace(generation=generation, failures=self._failures))

    def _begin(self, now: float) -> None:
        self._phase, self._why, self._failure, self._asked_at = _Phase.RUNNING, "", None, None
        if self._is_join and self.lease.generation.number > 1:
            self._joined_at = now
        self._actions.append(NoteGeneration(self.lease.generation))

    def _dismiss(self, now: float) -> None:
        left = [
            one
            for one in self._members.values()
            if one.gone is None and not (one.beat is not None and one.beat.farewell)
        ]
        others = [one for one in left if one.facts.word != self.lease.word]
        if not others or now >= self._over_at + self._timing.farewell_s:
            self._actions.append(LeaveRun())

    # -- the lease

    def _renew(self, now: float) -> None:
        is_due = now >= self._written_at + self._timing.renew_s and now >= self._try_at
        if self._pending is None and is_due:
            self._write(self.lease)

    def _write(self, lease: LeaderLease) -> None:
        self._pending = lease._replace(renewals=self.lease.renewals + 1)
        self._actions.append(WriteLease(self._pending))

    def has_authority(self, now: float) -> bool:
        """Whether no other leader can have started a generation: the lease was renewed lately, or every
        member of the present generation has been in touch.
        """
        unrenewed_s = now - self._written_at
        if unrenewed_s <= self._timing.authority_s:
            return True
        if unrenewed_s > self._timing.store_patience_s:
            return False
        since = now - self._timing.in_touch_s
        words = self.lease.generation.words
        return all(word in self._members and self._members[word].answered_at >= since for word in words)

    # -- orders

    def _send_order(self, known: _KnownMember, now: float) -> None:
        """Send an order if it changed, or if a heartbeat is due. A member that is gone gets none."""
        if known.beat is None or (known.gone is not None and not known.is_back):
            return
        order = self._order_for(known, now)
        last = known.order
        is_same = order._replace(number=last.number, acknowledged=last.acknowledged) == last
        if is_same and now < known.ordered_at + self._timing.beat_s:
            return
        known.order, known.ordered_at = order, now
        known.sent_at[order.number] = now
        known.sent_at.pop(order.number - _KEPT_NUMBERS, None)
        self._actions.append(SendOrder(known.facts.word, order))

    def _order_for(self, known: _KnownMember, now: float) -> Order:
        number = self.lease.generation.number
        order = Order(known.order.number + 1, self.lease.epoch)
        if known.beat is not None and known.gone is None and self.has_authority(now):
            order = order._replace(acknowledged=known.beat.number)
        if self._phase == _Phase.OVER:
            return order._replace(stop=number, over=self.lease.over)
        if self._phase != _Phase.RUNNING:
            return order._replace(stop=number, waits=self._waiting_words(now))
        order = order._replace(stop=number - 1)
        if known.facts.word not in self.lease.generation.words:
            return order._replace(waits="the run goes on without this node until its next checkpoint")
        asks = number if self._asked_at is not None else 0
        return order._replace(run=self.lease.generation, asks_checkpoint=asks)

    def _waiting_words(self, now: float) -> str:
        if self._phase == _Phase.STOPPING:
            return "the ranks of the last generation end"
        return f"{len(self._free(now))} of at least {self.rules.min_nodes} nodes"


class _Change(NamedTuple):
    """Why the membership should change, and how many seconds after the request it changes anyway."""

    why: str
    deadline_s: float


def _names(members: List[_KnownMember]) -> str:
    return ", ".join(one.facts.name for one in members)


def _outcome(
    state: State, reason: Optional[str], detail: Optional[str], exit_code: Optional[int] = None
) -> Dict[str, Any]:
    words = None if reason is None else str(reason)
    return {"state": str(state), "reason": words, "detail": detail, "exit_code": exit_code}
