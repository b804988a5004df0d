"""One agent of an elastic run: a member, and the leader while it holds the lease. Pure.

A participant finds the leader in the lease and keeps one line to it. It takes the lease when the leader is
dead or silent. While the line works it does not even read the lease, so the store may be away then.
"""

from __future__ import annotations

import math
from typing import List, NamedTuple, Optional

from gofer.node.elastic.actions import (
    Action,
    ConnectLeader,
    DisconnectLeader,
    LeaveRun,
    ReadLease,
    SendBeat,
    SendOrder,
    WriteLease,
)
from gofer.node.elastic.leader import Leader
from gofer.node.elastic.member import Member
from gofer.node.elastic.records import LeaderLease, MemberBeat, MemberFacts, Order, RankResult
from gofer.node.elastic.rules import ElasticRules, ElasticTiming


class _Seen(NamedTuple):
    """A lease of another agent, and since when this agent has seen it unchanged."""

    lease: LeaderLease
    since: float


class _Write(NamedTuple):
    """A write to the store whose answer has not come, or was lost."""

    lease: LeaderLease
    sent_at: float


class Participant:
    """Call one method for each event, then `tick`, which returns what to do. Single-threaded."""

    def __init__(self, rules: ElasticRules, timing: ElasticTiming, facts: MemberFacts, now: float) -> None:
        self.rules = rules
        self.member = Member(facts, timing)
        self.leader: Optional[Leader] = None
        self._timing = timing
        self._seen: Optional[_Seen] = None
        self._known: Optional[LeaderLease] = None  # the last lease that this agent tried to connect to
        self._connect_at = now
        self._unsure_at = math.inf  # when the first write was sent of which the answer was lost
        self._refused_epoch = 0  # the epoch of a leader whose agent does not listen any more
        self._line = False
        self._connecting = False
        self._connected_at = now
        self._is_busy = False  # a call to the store is under way
        self._write: Optional[_Write] = None
        self._read_at = now
        self._beaten = MemberBeat(facts, 0)
        self._beat_at = -math.inf
        self._is_done = False
        self._actions: List[Action] = []

    @property
    def word(self) -> str:
        return self.member.facts.word

    # -- the store

    def lease_read(self, lease: Optional[LeaderLease], now: float) -> None:
        """The lease, as the store has it; None when there is none."""
        self._is_busy = False
        self._read_at = now + self._timing.read_s
        unknown, self._write = self._write, None
        if unknown is not None and lease is not None and self._has_arrived(unknown, lease):
            self._own_written(lease, min(unknown.sent_at, self._unsure_at), now)
            return
        if self.leader is not None:
            if lease is not None and _holder(lease) != _holder(self.leader.lease):
                self._step_down(now)
            else:
                self.leader.write_failed(now)
                return
        if lease is None:
            self._take(LeaderLease(self.word, 1, 1, *self._own_endpoint()), now)
        else:
            self._follow(lease, now)

    def lease_written(self, now: float) -> None:
        """The last write has arrived."""
        self._is_busy = False
        write, self._write = self._write, None
        self._unsure_at = math.inf
        if write is not None:
            self._own_written(write.lease, write.sent_at, now)

    def lease_conflict(self, now: float) -> None:
        """The lease has changed since it was read. Read it: the change can be an earlier write of this
        agent whose answer was lost.
        """
        self._is_busy = False
        self._read_at = now

    def store_failed(self, now: float) -> None:
        """The store does not answer. Whether the last write has arrived is not known."""
        self._is_busy = False
        self._read_at = now + self._timing.read_s
        if self._write is not None:
            self._unsure_at = min(self._unsure_at, self._write.sent_at)
        if self.leader is None and self._known is not None and now >= self._connect_at:
            self._connect(self._known, now)  # the leader may go on without the store

    # -- lines

    def connected(self, now: float) -> None:
        self._connecting, self._line, self._connected_at = False, True, now
        self.member.new_leader()
        self._beat_at = -math.inf

    def connect_failed(self, *, is_refused: bool, now: float) -> None:
        """The leader cannot be reached. Where nothing listens any more, it is dead."""
        self._connecting = False
        if is_refused and self._known is not None:
            self._refused_epoch = self._known.epoch
            self._read_at = now

    def disconnected(self, now: float) -> None:
        """The line to the leader is closed. A leader that is being killed can close it before it stops to
        listen, so it is called once more.
        """
        self._line = False
        self._known = None
        self._read_at = now

    def receive_order(self, order: Order, now: float) -> None:
        """An order from the leader over the line."""
        if self._line:
            self._actions += self.member.obey(order, now)

    def receive_beat(self, beat: MemberBeat, now: float) -> None:
        """A heartbeat of a member, which took this agent for the leader."""
        if self.leader is not None:
            self.leader.receive(beat, now)

    def member_disconnected(self, word: str, now: float) -> None:
        if self.leader is not None:
            self.leader.disconnected(word, now)

    def dialled(self, word: str, *, is_refused: bool, now: float) -> None:
        if self.leader is not None:
            self.leader.dialled(word, is_refused=is_refused, now=now)

    # -- this node

    def ranks_ended(self, result: RankResult, rank_port: int) -> None:
        """The ranks have ended, and no process of them is left. `rank_port` is a free port for the next."""
        self.member.ranks_ended(result)
        self.member.facts = self.member.facts._replace(rank_port=rank_port)

    def checkpoint_written(self, generation: int) -> None:
        self.member.checkpoint_written(generation)

    def leave(self, notice_s: float) -> None:
        """The cluster takes this node back in `notice_s` seconds."""
        self.member.leaving_s = notice_s

    def cancel(self) -> None:
        """A person ends the run."""
        self.member.is_cancelled = True

    def wish(self, rules: ElasticRules) -> None:
        """The rules have changed."""
        self.rules = rules
        if self.leader is not None:
            self.leader.rules = rules

    def tick(self, now: float) -> List[Action]:
        """What to do now, in this order. Call it after every event and a few times a second."""
        self._actions += self.member.tick(now)
        self._lead(now)
        self._send_beat(now)
        self._lead(now)
        if self.leader is None:
            self._look_for_leader(now)
        actions, self._actions = self._actions, []
        return actions

    # -- the leader's side

    def _lead(self, now: float) -> None:
        if self.leader is None:
            return
        for action in self.leader.tick(now):
            if isinstance(action, SendOrder) and action.word == self.word:
                self._actions += self.member.obey(action.order, now)
            elif isinstance(action, WriteLease):
                self._put(action.lease, now)
            elif isinstance(action, LeaveRun):
                self._end()
            else:
                self._actions.append(action)
        if self._write is not None and not self._is_busy and now >= self._read_at:
            self._read()

    def _put(self, lease: LeaderLease, now: float) -> None:
        self._is_busy = True
        self._write = _Write(lease, now)
        self._actions.append(WriteLease(lease))

    def _own_written(self, lease: LeaderLease, sent_at: float, now: float) -> None:
        if self.leader is None:
            self._line = self._connecting = False
            self.member.new_leader()
            self._actions.append(DisconnectLeader())
            self.leader = Leader(self.rules, self._timing, lease, now=now, written_at=sent_at)
        else:
            self.leader.written(lease, sent_at, now)
        self._beat_at = -math.inf

    def _step_down(self, now: float) -> None:
        """Another agent has the lease: kill the ranks, and become a member of the other leader."""
        self.leader = None
        self._actions += self.member.fence(now)
        self._seen = None

    def _has_arrived(self, write: _Write, lease: LeaderLease) -> bool:
        """Whether the store has a write of this agent as the leader of that epoch, perhaps an earlier one."""
        return _holder(lease) == _holder(write.lease) and lease.renewals >= write.lease.renewals

    # -- the member's side

    def _send_beat(self, now: float) -> None:
        if not (self._line or self.leader is not None):
            return
        state = self.member.state()
        if state == self._beaten and now < self._beat_at + self._timing.beat_s:
            return
        self._beaten, self._beat_at = state, now
        beat = self.member.beat(now)
        if self.leader is not None:
            self.leader.receive(beat, now)
        else:
            self._actions.append(SendBeat(beat))

    def _look_for_leader(self, now: float) -> None:
        heard_at = max(self.member.answered_at, self._connected_at)
        if self._line and now > heard_at + self._timing.licence_s:
            self._line = False
            self._actions.append(DisconnectLeader())
        if self.member.is_done:
            self._end()
        is_in_doubt = not self._line or now > heard_at + self._timing.doubt_s
        if not is_in_doubt:
            self._seen = None
        elif not self._is_busy and now >= self._read_at and not self._is_done:
            self._read()

    def _read(self) -> None:
        self._is_busy = True
        self._actions.append(ReadLease())

    def _follow(self, lease: LeaderLease, now: float) -> None:
        """Another agent has the lease, or had it."""
        if lease.over is not None:
            self.member.over = lease.over
            self._actions += self.member.fence(now)
            return
        seen = self._seen
        if seen is None or _version(seen.lease) != _version(lease):
            self._seen = seen = _Seen(lease, now)
        if self._may_take(seen, now):
            self._actions += self.member.fence(now)
            if not self.member.running:
                taken = lease._replace(word=self.word, epoch=lease.epoch + 1, renewals=lease.renewals + 1)
                address, port = self._own_endpoint()
                self._take(taken._replace(address=address, port=port), now)
        elif self._known is None or _version(self._known) != _version(lease):
            self._connect(lease, now)

    def _connect(self, lease: LeaderLease, now: float) -> None:
        """Open a line, once for each version of the lease: a leader that renews nothing may be frozen."""
        if self._line or self._connecting or lease.word == self.word:
            return
        self._connecting, self._known = True, lease
        self._connect_at = now + 2 * self._timing.renew_s
        self._actions.append(ConnectLeader(lease.address, lease.port))

    def _may_take(self, seen: _Seen, now: float) -> bool:
        """Whether the leader is dead, or has been silent for long enough."""
        lease, timing = seen.lease, self._timing
        if lease.word == self.word or lease.epoch == self._refused_epoch:
            return True
        words = lease.generation.words
        is_witness = not words or self.word in words
        if now < self.member.licensed_until or now < self.member.ordered_at + timing.in_touch_s:
            return False  # the leader may still count on this member
        return now - seen.since > (timing.unchanged_s if is_witness else timing.newcomer_s)

    def _take(self, lease: LeaderLease, now: float) -> None:
        if self.member.over is None and not self._is_done:
            self._put(lease, now)

    def _own_endpoint(self) -> tuple[str, int]:
        return self.member.facts.address, self.member.facts.port

    def _end(self) -> None:
        if not self._is_done and not self.member.running:
            self._is_done = True
            self._actions.append(LeaveRun())


def _version(lease: LeaderLease) -> tuple[str, int, int]:
    return lease.word, lease.epoch, lease.renewals


def _holder(lease: LeaderLease) -> tuple[str, int]:
    return lease.word, lease.epoch
