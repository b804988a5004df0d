"""How the nodes of a run find each other for an attempt, and notice that a node is gone.

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
from typing import Any, Callable, Dict, List, NamedTuple, Optional, TypeVar

from gofer.core import retries
from gofer.node.azure.peer_messages import PeerMessages
from gofer.node.azure.share import AzureShare
from gofer.node.rendezvous.base import own_address
from gofer.node.uploader.patience import retry_store
from gofer.objects.facts import ObjectsError

T = TypeVar("T")

LOOK_S = 2.5
# The first reads follow quickly, since most messages arrive soon; later reads are further and further apart.
_FIRST_LOOK_S = 0.2
_BEAT_S = 15.0
_LOST_S = 120.0
# Nodes pull their images at their own pace.
_GATHER_S = 3600.0
_GATHER_AGAIN_S = 600.0

# Blocks for about this many seconds; False when the service told this node to end.
Wait = Callable[[float], bool]


class Terminated(Exception):
    """The service wants this node to end."""


class Alone(Exception):
    """Another node did not arrive, or is gone. The text is for the run's record."""


class AttemptPlan(NamedTuple):
    """One attempt as the leader announced it. With `over`, there is no further attempt, and `over` is the
    exit status.
    """

    life: str
    attempt: int
    hosts: List[str]
    port: int
    seen: Dict[str, str]
    over: Optional[int] = None

    def changed(self, messages: Dict[str, Dict[str, Any]]) -> Optional[str]:
        """Why this attempt cannot continue, according to the messages; None while it can."""
        meet = messages.get("meet")
        if meet is not None and meet["life"] != self.life:
            return "node 0 was restarted"
        for node, word in self.seen.items():
            here = messages.get(f"here.{node}")
            if here is not None and here["word"] != word:
                return f"node {node} was restarted"
        return None


class Pulse:
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
            self._messages.publish(
                f"beat.{self._node}", {"by": os.getpid(), "beat": self._beats, "at": time.time()}
            )
            self._beat_at = time.monotonic() + _BEAT_S

    def missed(self, messages: Dict[str, Dict[str, Any]], nodes: List[int]) -> List[int]:
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


def patiently(act: Callable[[], T], wait: Wait) -> T:
    """Call `act`, and repeat it while the store does not answer. Blocks. Terminated when the service ends
    this node; the last ObjectsError when the store stays away too long.
    """

    def wait_or_end(seconds: float) -> None:
        if not wait(seconds):
            raise Terminated

    return retry_store(act, words="the store does not answer", pause_s=LOOK_S, wait=wait_or_end)


class ObjectRendezvous:
    """One node's part in the rendezvous of its run. Main thread only. All methods block; they raise
    ObjectsError when the store stays away, and Terminated.
    """

    def __init__(self, messages: PeerMessages, share: AzureShare, wait: Wait) -> None:
        self._messages = messages
        self._share = share
        self._wait = wait
        self._word = os.urandom(8).hex()
        self._pulse = Pulse(messages, share.node)
        self._others = [node for node in range(share.nodes) if node != share.node]
        self._delay_s = _FIRST_LOOK_S
        self._patience_s = _GATHER_S

    # -- the leader

    def call(self, attempt: int, port: int) -> AttemptPlan:
        """Announce an attempt, and wait until every node has acknowledged it. Alone when a node does not
        arrive.
        """
        self._delay_s = _FIRST_LOOK_S
        plan = AttemptPlan(f"{self._word}.{attempt}", attempt, [self._share.master or "localhost"], port, {})
        patience_s, self._patience_s = self._patience_s, _GATHER_AGAIN_S
        deadline = time.monotonic() + patience_s
        while self._others:
            messages = self._look()
            here = {node: messages[f"here.{node}"] for node in self._others if f"here.{node}" in messages}
            if len(here) == len(self._others):
                seen = {str(node): str(one["word"]) for node, one in here.items()}
                if seen != plan.seen:
                    plan = plan._replace(seen=seen, hosts=self._hosts(here))
                    self._announce(plan)
                elif all(one.get("ack") == plan.life for one in here.values()):
                    break
            if time.monotonic() > deadline:
                missing = [str(node) for node in self._others if here.get(node, {}).get("ack") != plan.life]
                raise Alone(f"node {', '.join(missing)} did not arrive within {patience_s / 60:.0f} min")
            self._rest()
        return plan

    def collect(self, plan: AttemptPlan, own: Dict[str, Any]) -> List[Optional[Dict[str, Any]]]:
        """Wait for the exit records of all nodes. None for a node that is gone or was restarted without a
        record.
        """
        self._delay_s = _FIRST_LOOK_S
        if not self._others:
            return [own]
        while True:
            messages = self._look()
            exits = [messages.get(f"exit.{plan.attempt}.{node}") for node in range(self._share.nodes)]
            exits[self._share.node] = own
            open_nodes = [node for node, record in enumerate(exits) if record is None]
            restarted = [
                node
                for node in open_nodes
                if messages.get(f"here.{node}", {}).get("word") != plan.seen[str(node)]
            ]
            missed = self._pulse.missed(messages, open_nodes)
            if not set(open_nodes) - {*missed, *restarted}:
                return exits
            self._rest()

    def announce_end(self, plan: AttemptPlan, status: int) -> AttemptPlan:
        """Announce the end, so that the other nodes send their files. The plan that announces it."""
        over = plan._replace(life=f"{plan.life}.over", over=status)
        if self._others:
            self._announce(over)
        return over

    def await_sent(self, over: AttemptPlan, nodes: List[int]) -> None:
        """Wait until these nodes have sent their files to the store, or are gone."""
        self._delay_s = _FIRST_LOOK_S
        while nodes:
            messages = self._look()
            left = [node for node in nodes if messages.get(f"sent.{node}", {}).get("life") != over.life]
            if not set(left) - set(self._pulse.missed(messages, left)):
                return
            self._rest()

    def _announce(self, plan: AttemptPlan) -> None:
        patiently(lambda: self._messages.publish("meet", plan._asdict()), self._wait)

    def _hosts(self, here: Dict[int, Dict[str, Any]]) -> List[str]:
        """The host names of all nodes: those that the service gives, else those that the nodes report. The
        first is the master address.
        """
        known = self._share.hosts or ["", *(str(here[node]["host"]) for node in sorted(here))]
        return [self._share.master or known[0] or own_address(), *known[1:]]

    # -- the others

    def join(self, done: Optional[AttemptPlan]) -> AttemptPlan:
        """The next attempt after `done`, or the plan that announces the end.

        Alone when the leader announces nothing in time, or is gone.
        """
        self._delay_s = _FIRST_LOOK_S
        ack = "" if done is None else done.life  # the leader may not have read it yet
        deadline = time.monotonic() + _GATHER_S
        while True:
            facts = {"word": self._word, "ack": ack, "host": own_address()}
            patiently(lambda: self._messages.publish(f"here.{self._share.node}", facts), self._wait)  # noqa: B023
            while True:
                messages = self._look()
                plan = self._announced(messages, done)
                if plan is not None:
                    break
                end = patiently(self._messages.end, self._wait)
                if end is not None:  # the run ended without this node, which has no files to send
                    return AttemptPlan("", 0, [], 0, {}, retries.status(end["state"], end.get("exit_code")))
                # Between attempts the leader may run long, so only its heartbeat counts. Before the first
                # attempt its heartbeat may be an old one, so only time counts.
                is_gone = time.monotonic() > deadline if done is None else self._pulse.missed(messages, [0])
                if is_gone:
                    raise Alone("node 0 announced no attempt")
                self._rest()
            if plan.over is not None or ack == plan.life:
                return plan
            ack = plan.life

    def _announced(
        self, messages: Dict[str, Dict[str, Any]], done: Optional[AttemptPlan]
    ) -> Optional[AttemptPlan]:
        """The announced plan, if it names this process and is not `done`; else None."""
        meet = messages.get("meet")
        if meet is None or meet["seen"].get(str(self._share.node)) != self._word:
            return None
        plan = AttemptPlan(**meet)
        return None if done is not None and plan.life == done.life else plan

    def leave(self, plan: AttemptPlan, is_sent: bool) -> None:
        """Report that this node has sent its files, and wait until the leader has ended the run or is gone. A
        node must not exit early: the service ends all nodes when one of them fails.
        """
        self._delay_s = _FIRST_LOOK_S
        self.publish_sent(plan, is_sent)
        while patiently(self._messages.end, self._wait) is None:
            if self._pulse.missed(self._look(), [0]):
                return  # keep the messages: the job may be started again and needs them
            self._rest()
        self.forget()

    def forget(self) -> None:
        """Remove this node's messages. The leader has removed all messages, but this node may have sent more
        since.
        """
        node = self._share.node
        own = [f"{word}.{node}" for word in ("here", "beat", "sent")]
        try:
            patiently(lambda: self._messages.forget(*own), self._wait)
        except ObjectsError:
            pass  # only a few small objects are left, and the end of the run is recorded

    # -- all

    def publish_sent(self, plan: AttemptPlan, is_sent: bool) -> None:
        """Report that this node is done with sending, and whether all its files are in the store."""
        facts = {"life": plan.life, "attempt": plan.attempt if is_sent else None}
        patiently(lambda: self._messages.publish(f"sent.{self._share.node}", facts), self._wait)

    def is_sent(self, attempt: int) -> bool:
        """Whether every node has reported that its files of this attempt are in the store."""
        sent = [self._messages.read(f"sent.{node}") for node in range(self._share.nodes)]
        return all(one is not None and one.get("attempt") == attempt for one in sent)

    def _look(self) -> Dict[str, Dict[str, Any]]:
        def read_all() -> Dict[str, Dict[str, Any]]:
            self._pulse.beat()
            return self._messages.read_all()

        return patiently(read_all, self._wait)

    def _rest(self) -> None:
        delay_s, self._delay_s = self._delay_s, min(self._delay_s * 1.4, LOOK_S)
        if not self._wait(delay_s):
            raise Terminated
