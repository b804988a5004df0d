"""The rendezvous in an object store, for nodes that share no folder and whose job may be restarted.

Node 0 is the leader. Every agent draws a random word when it starts, so that messages of an earlier start of
the job are not mistaken for current ones. Each other node writes `here` with its word. The leader answers
with `meet`: the attempt, the master address, and the words that it has seen. A node that finds its own word
in `meet` acknowledges and starts. After an attempt the leader announces the next attempt, or the end.

While a node waits or runs, it updates its `beat`. A node whose beat does not change counts as gone. The time
during which the store does not answer is not counted.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, cast

from gofer.core import retries
from gofer.core.outcome import ExitFields
from gofer.core.states import State
from gofer.node.rendezvous.base import EXIT, Membership, Rendezvous, own_address
from gofer.node.rendezvous.peer_messages import (
    LOOK_S,
    Messages,
    PeerMessages,
    Terminated,
    Wait,
    patiently,
)
from gofer.objects.facts import ObjectsError

# The first reads follow quickly, since most messages arrive soon; later reads are further and further apart.
_FIRST_LOOK_S = 0.2
# Nodes pull their images at their own pace.
_GATHER_S = 3600.0
_GATHER_AGAIN_S = 600.0
_BEAT_S = 15.0
_LOST_S = 120.0


class PeersMissing(Exception):
    """Another node did not arrive, or is gone. The text is for the run's record."""


class AttemptPlan(NamedTuple):
    """One attempt as the leader announces it in the message `meet`, whose keys are these fields.

    `life` names this start of the attempt, and `seen` has the words of the nodes. With `over`, there is no
    further attempt, and `over` is the exit status.
    """

    life: str
    attempt: int
    hosts: List[str]
    port: int
    seen: Dict[str, str]
    over: Optional[int] = None

    def changed(self, messages: Messages) -> Optional[str]:
        """Why this attempt cannot continue, according to the messages; None while it can."""
        meet = messages.get("meet")
        if meet is not None and meet["life"] != self.life:
            return "node 0 was restarted"
        for node, word in self.seen.items():
            here = messages.get(f"here.{node}")
            if here is not None and here["word"] != word:
                return f"node {node} was restarted"
        return None


class ObjectRendezvous(Rendezvous):
    """The rendezvous of all attempts that this process makes.

    For each attempt, the agent calls `propose` on node 0, then `join`, and `publish` with the exit record.
    Node 0 then calls `collect`. After the last attempt node 0 calls `announce_end`, and each node sends its
    files and calls `publish_sent` and `leave`. Methods that wait raise ObjectsError when the store stays
    away, and Terminated.

    `hosts` are the names of all nodes, and `master` is the host to which ranks connect, as far as the service
    names them.
    """

    def __init__(
        self,
        messages: PeerMessages,
        node: int,
        nodes: int,
        wait: Wait,
        *,
        hosts: List[str],
        master: Optional[str],
    ) -> None:
        super().__init__(node, nodes)
        self.messages = messages
        self._plan: Optional[AttemptPlan] = None
        self._wait = wait
        self._hosts = hosts
        self._master = master
        self._word = os.urandom(8).hex()
        self._heartbeats = Heartbeats(messages, node)
        self._watched = Heartbeats(messages, node)
        self._delay_s = _FIRST_LOOK_S
        self._patience_s = _GATHER_S
        self._asked_at = 0.0
        self._reached: List[int] = []

    # -- the interface

    def join(self) -> Optional[Membership]:
        """Node 0: announce the proposed attempt, and wait until every node has acknowledged it. The others:
        wait until node 0 announces another attempt. None when it announces the end: see `current.over`.

        Blocks. PeersMissing when a node does not arrive within the hour, or within ten minutes for a further
        attempt, or when node 0 is gone.
        """
        self._delay_s = _FIRST_LOOK_S
        self.membership = None
        plan = self._plan = self._gather() if self.node == 0 else self._follow(self._plan)
        self._watched = Heartbeats(self.messages, self.node)
        if plan.over is None:
            self.membership = Membership(plan.hosts, plan.port)
        return self.membership

    def publish(self, message: str, value: Mapping[str, Any]) -> None:
        """Blocks until the store has the message."""
        key = self._key(message, self.node)
        patiently(lambda: self.messages.publish(key, dict(value)), self._wait)

    def read(self, message: str, node: int) -> Optional[Dict[str, Any]]:
        return self.messages.read(self._key(message, node))

    def has_ended(self, node: int) -> bool:
        """Whether the node has ended its share. Reads the store only every LOOK_S. False in between, and
        while the store does not answer.
        """
        now = time.monotonic()
        if now < self._asked_at:
            return False
        self._asked_at = now + LOOK_S
        try:
            return super().has_ended(node)
        except ObjectsError:
            return False

    def wait_until_prepared(self, keep_on: object) -> bool:
        """Return at once: here, the command on the first node starts while the other nodes still prepare."""
        return True

    def beat(self) -> None:
        """Send a heartbeat if the last is old enough."""
        self._watched.beat()

    def watch(self) -> Optional[str]:
        """Send a heartbeat, and read what the other nodes say. See gofer.node.rendezvous.peer_monitor."""
        plan = self.current
        self.beat()
        messages = self.messages.read_all()
        at_work = []
        for node in self.others:
            record = messages.get(self._key(EXIT, node))
            if record is None:
                at_work.append(node)
            elif record["state"] != State.SUCCEEDED:
                return f"node {node} is {record['state']}: {record['detail']}"
        missed = self._watched.missed(messages, at_work)
        return plan.changed(messages) or (f"node {missed[0]} is silent" if missed else None)

    def leave(self) -> None:
        """Node 0: wait until every node that was there at the end has sent its files, or is gone. The others:
        wait until the end of the run is recorded or node 0 is gone, and remove this node's messages. A node
        must not exit early: the service ends all nodes when one of them fails.
        """
        self._delay_s = _FIRST_LOOK_S
        if self.node == 0:
            self._await_sent()
        elif self._await_end():
            self._remove_messages()
        super().leave()

    # -- node 0

    def propose(self, attempt: int, port: int) -> None:
        """Make the plan of the next attempt. `join` announces it."""
        hosts = [self._master or "localhost"]
        self._plan = AttemptPlan(f"{self._word}.{attempt}", attempt, hosts, port, {})

    def _gather(self) -> AttemptPlan:
        plan = self.current
        patience_s, self._patience_s = self._patience_s, _GATHER_AGAIN_S
        deadline = time.monotonic() + patience_s
        while self.others:
            messages = self._read_all()
            here = {node: messages[f"here.{node}"] for node in self.others if f"here.{node}" in messages}
            if len(here) == len(self.others):
                seen = {str(node): str(one["word"]) for node, one in here.items()}
                if seen != plan.seen:
                    plan = plan._replace(seen=seen, hosts=self._all_hosts(here))
                    self._announce(plan)
                elif all(one.get("ack") == plan.life for one in here.values()):
                    break
            if time.monotonic() > deadline:
                missing = [str(node) for node in self.others if here.get(node, {}).get("ack") != plan.life]
                raise PeersMissing(
                    f"node {', '.join(missing)} did not arrive within {patience_s / 60:.0f} min"
                )
            self._rest()
        return plan

    def _exit(self, messages: Messages, node: int) -> Optional[ExitFields]:
        return cast("ExitFields | None", messages.get(self._key(EXIT, node)))

    def collect(self, own: ExitFields) -> List[Optional[ExitFields]]:
        """Wait for the exit records of all nodes, of which node 0 has `own`. None for a node that is gone or
        was restarted without a record.
        """
        self._delay_s = _FIRST_LOOK_S
        self._reached = []
        if not self.others:
            return [own]
        plan = self.current
        while True:
            messages = self._read_all()
            exits = [own, *(self._exit(messages, node) for node in self.others)]
            self._reached = [node for node in self.others if exits[node] is not None]
            open_nodes = [node for node in self.others if exits[node] is None]
            restarted = [
                node
                for node in open_nodes
                if messages.get(f"here.{node}", {}).get("word") != plan.seen[str(node)]
            ]
            missed = self._heartbeats.missed(messages, open_nodes)
            if not set(open_nodes) - {*missed, *restarted}:
                return exits
            self._rest()

    @property
    def has_reached(self) -> bool:
        """Whether another node has published its exit record of the last attempt."""
        return bool(self._reached)

    def announce_end(self, status: int) -> None:
        """Announce the end of the run, so that the other nodes send their files."""
        plan = self.current
        self._plan = plan._replace(life=f"{plan.life}.over", over=status)
        if self.others:
            self._announce(self._plan)

    def _await_sent(self) -> None:
        nodes, life = self._reached, self.current.life
        while nodes:
            messages = self._read_all()
            left = [node for node in nodes if messages.get(f"sent.{node}", {}).get("life") != life]
            if not set(left) - set(self._heartbeats.missed(messages, left)):
                return
            self._rest()

    def _announce(self, plan: AttemptPlan) -> None:
        patiently(lambda: self.messages.publish("meet", plan._asdict()), self._wait)

    def _all_hosts(self, here: Dict[int, Dict[str, Any]]) -> List[str]:
        """The host names of all nodes: those that the service gives, else those that the nodes report. The
        first is the master address.
        """
        known = self._hosts or ["", *(str(here[node]["host"]) for node in sorted(here))]
        return [self._master or known[0] or own_address(), *known[1:]]

    # -- the others

    def _follow(self, done: Optional[AttemptPlan]) -> AttemptPlan:
        """The next attempt after `done`, or the plan that announces the end."""
        ack = "" if done is None else done.life  # the leader may not have read it yet
        deadline = time.monotonic() + _GATHER_S
        while True:
            facts = {"word": self._word, "ack": ack, "host": own_address()}
            patiently(lambda: self.messages.publish(f"here.{self.node}", facts), self._wait)  # noqa: B023
            while True:
                messages = self._read_all()
                plan = self._announced(messages, done)
                if plan is not None:
                    break
                end = patiently(self.messages.end, self._wait)
                if end is not None:  # the run ended without this node, which has no files to send
                    return AttemptPlan("", 0, [], 0, {}, retries.status(end["state"], end.get("exit_code")))
                # Between attempts the leader may run long, so only its heartbeat counts. Before the first
                # attempt its heartbeat may be an old one, so only time counts.
                is_gone = time.monotonic() > deadline if done is None else self._is_leader_gone(messages)
                if is_gone:
                    raise PeersMissing("node 0 announced no attempt")
                self._rest()
            if plan.over is not None or ack == plan.life:
                return plan
            ack = plan.life

    def _announced(self, messages: Messages, done: Optional[AttemptPlan]) -> Optional[AttemptPlan]:
        """The announced plan, if it names this process and is not `done`; else None."""
        meet = messages.get("meet")
        if meet is None or meet["seen"].get(str(self.node)) != self._word:
            return None
        plan = AttemptPlan(**meet)
        return None if done is not None and plan.life == done.life else plan

    def _is_leader_gone(self, messages: Messages) -> bool:
        return bool(self._heartbeats.missed(messages, [0]))

    def _await_end(self) -> bool:
        """Wait until the end of the run is recorded. False when node 0 is gone: the job may be started again
        and then needs the messages.
        """
        if not self.current.life:
            return True  # the run had ended before this node joined
        while patiently(self.messages.end, self._wait) is None:
            if self._is_leader_gone(self._read_all()):
                return False
            self._rest()
        return True

    def _remove_messages(self) -> None:
        """Remove this node's messages. The leader has removed all messages, but this node may have sent more
        since.
        """
        own = [f"{word}.{self.node}" for word in ("here", "beat", "sent")]
        try:
            patiently(lambda: self.messages.remove(*own), self._wait)
        except ObjectsError:
            pass  # only a few small objects are left, and the end of the run is recorded

    # -- all

    def publish_sent(self, is_sent: bool) -> None:
        """Report that this node is done with sending, and whether all its files are in the store."""
        plan = self.current
        facts = {"life": plan.life, "attempt": plan.attempt if is_sent else None}
        patiently(lambda: self.messages.publish(f"sent.{self.node}", facts), self._wait)

    def is_sent(self, attempt: int) -> bool:
        """Whether every node has reported that its files of this attempt are in the store."""
        sent = [self.messages.read(f"sent.{node}") for node in range(len(self.others) + 1)]
        return all(one is not None and one.get("attempt") == attempt for one in sent)

    @property
    def current(self) -> AttemptPlan:
        """The current attempt, or the announced end."""
        assert self._plan is not None, "`propose` or `join` comes first"
        return self._plan

    def _key(self, message: str, node: int) -> str:
        return f"{message}.{self.current.attempt}.{node}"

    def _read_all(self) -> Messages:
        def read_all() -> Messages:
            self._heartbeats.beat()
            return self.messages.read_all()

        return patiently(read_all, self._wait)

    def _rest(self) -> None:
        delay_s, self._delay_s = self._delay_s, min(self._delay_s * 1.4, LOOK_S)
        if not self._wait(delay_s):
            raise Terminated


class Heartbeats:
    """Sends the heartbeats of this node, and follows those of the other nodes."""

    def __init__(self, messages: PeerMessages, node: int) -> None:
        self._messages = messages
        self._node = node
        self._beats = 0
        self._beat_at = 0.0
        self._looked_at: Optional[float] = None
        self._silent_s: Dict[int, float] = {}
        self._last: Dict[int, Any] = {}

    def beat(self) -> None:
        """Send a heartbeat if the last is old enough. The process id and a count make each heartbeat
        different.
        """
        if time.monotonic() >= self._beat_at:
            self._beats += 1
            facts = {"by": os.getpid(), "beat": self._beats, "at": time.time()}
            self._messages.publish(f"beat.{self._node}", facts)
            self._beat_at = time.monotonic() + _BEAT_S

    def missed(self, messages: Messages, nodes: List[int]) -> List[int]:
        """The nodes that have sent no heartbeat for _LOST_S. Only time between successful reads counts."""
        now = time.monotonic()
        passed_s = 0.0 if self._looked_at is None else min(now - self._looked_at, 2 * LOOK_S)
        self._looked_at = now
        for node in nodes:
            beat = messages.get(f"beat.{node}")
            is_new = beat != self._last.get(node)
            self._last[node] = beat
            self._silent_s[node] = 0.0 if is_new else self._silent_s.get(node, 0.0) + passed_s
        return [node for node in nodes if self._silent_s[node] > _LOST_S]
