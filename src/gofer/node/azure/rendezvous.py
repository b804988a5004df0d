"""How the nodes of a run come together for an attempt, and hear of each other.

Node 0 leads. Every process of the service has a word of its own, drawn when it starts, so that what an
earlier life of the job has left in the store is not taken for the present. The others say that they are
`here`; the leader answers with `meet`: which attempt it is, where ranks meet, and whose word it has seen. Who
finds its own word in there says so, and starts. After an attempt the leader calls to the next one, or says
that it is over.

While it waits or runs, each node changes its `beat`. A node whose beat stands still is missed; while the
store itself is away, nobody is.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, TypeVar

from gofer.core import retries
from gofer.node.azure.peer_messages import Told
from gofer.node.azure.share import AzureShare
from gofer.node.rendezvous.machines import own_address
from gofer.node.uploader.node_uploader import PATIENCE_S, REFUSALS, REFUSED_PATIENCE_S
from gofer.objects.facts import ObjectsError

T = TypeVar("T")

LOOK_S = 2.5
# What is waited for is mostly on its way; what is not is looked for less and less often.
_FIRST_LOOK_S = 0.2
_BEAT_S = 15.0
_LOST_S = 120.0
# Nodes pull their images at their own pace.
_GATHER_S = 3600.0
_GATHER_AGAIN_S = 600.0

# Blocks for about so many seconds; False when this node was told to end.
Wait = Callable[[float], bool]


class ToldToEnd(Exception):
    """The service wants this node to end."""


class Alone(Exception):
    """Another node did not come, or is gone; in words for the record."""


class AttemptPlan(NamedTuple):
    """One attempt as the leader called it; `over` is the status to end with, and then there is none."""

    life: str
    attempt: int
    hosts: List[str]
    port: int
    seen: Dict[str, str]
    over: Optional[int] = None

    def changed(self, told: Dict[str, Dict[str, Any]]) -> Optional[str]:
        """Why this attempt cannot go on, by what was told since; None while it can."""
        meet = told.get("meet")
        if meet is not None and meet["life"] != self.life:
            return "node 0 began anew"
        for node, word in self.seen.items():
            here = told.get(f"here.{node}")
            if here is not None and here["word"] != word:
                return f"node {node} began anew"
        return None


class Pulse:
    """The signs of life of this node, and of the others as it sees them."""

    def __init__(self, told: Told, node: int) -> None:
        self._told = told
        self._node = node
        self._beats = 0
        self._beat_at = 0.0
        self._looked_at: Optional[float] = None
        self._silent_s: Dict[int, float] = {}
        self._last: Dict[int, Any] = {}

    def beat(self) -> None:
        """At most every so often; the word of a life and a count, so that no two are alike."""
        if time.monotonic() >= self._beat_at:
            self._beats += 1
            self._told.tell(f"beat.{self._node}", {"by": os.getpid(), "beat": self._beats, "at": time.time()})
            self._beat_at = time.monotonic() + _BEAT_S

    def missed(self, told: Dict[str, Dict[str, Any]], nodes: List[int]) -> List[int]:
        """Those of the nodes that have been silent for long. Only time between successful looks counts."""
        now = time.monotonic()
        passed_s = 0.0 if self._looked_at is None else min(now - self._looked_at, 2 * LOOK_S)
        self._looked_at = now
        for node in nodes:
            beat = told.get(f"beat.{node}")
            is_new = beat != self._last.get(node)
            self._last[node] = beat
            self._silent_s[node] = 0.0 if is_new else self._silent_s.get(node, 0.0) + passed_s
        return [node for node in nodes if self._silent_s[node] > _LOST_S]


def patiently(act: Callable[[], T], wait: Wait) -> T:
    """Do it, again while the store is away. ToldToEnd; the last ObjectsError when patience is over."""
    began = time.monotonic()
    complained = False
    while True:
        try:
            return act()
        except ObjectsError as error:
            patience_s = REFUSED_PATIENCE_S if error.status in REFUSALS else PATIENCE_S
            if time.monotonic() - began > patience_s:
                raise
            if not complained:
                print(f"gofer: the store does not answer, and is waited for: {error}", file=sys.stderr)
                sys.stderr.flush()
            complained = True
        if not wait(LOOK_S):
            raise ToldToEnd


class Meeting:
    """One node's part in the meetings of its run. Main thread only; everything may raise ObjectsError when
    the store stays away, and ToldToEnd.
    """

    def __init__(self, told: Told, share: AzureShare, wait: Wait) -> None:
        self._told = told
        self._share = share
        self._wait = wait
        self._word = os.urandom(8).hex()
        self._pulse = Pulse(told, share.node)
        self._others = [node for node in range(share.nodes) if node != share.node]
        self._delay_s = _FIRST_LOOK_S
        self._patience_s = _GATHER_S

    # -- the leader

    def call(self, attempt: int, port: int) -> AttemptPlan:
        """Blocks until every node has said that it knows of the attempt. Alone when one does not come."""
        self._delay_s = _FIRST_LOOK_S
        plan = AttemptPlan(f"{self._word}.{attempt}", attempt, [self._share.master or "localhost"], port, {})
        patience_s, self._patience_s = self._patience_s, _GATHER_AGAIN_S
        deadline = time.monotonic() + patience_s
        while self._others:
            told = self._look()
            here = {node: told[f"here.{node}"] for node in self._others if f"here.{node}" in told}
            if len(here) == len(self._others):
                seen = {str(node): str(one["word"]) for node, one in here.items()}
                if seen != plan.seen:
                    plan = plan._replace(seen=seen, hosts=self._hosts(here))
                    self._announce(plan)
                elif all(one.get("ack") == plan.life for one in here.values()):
                    break
            if time.monotonic() > deadline:
                missing = [str(node) for node in self._others if here.get(node, {}).get("ack") != plan.life]
                raise Alone(f"node {', '.join(missing)} did not come within {patience_s / 60:.0f} min")
            self._rest()
        return plan

    def collect(self, plan: AttemptPlan, own: Dict[str, Any]) -> List[Optional[Dict[str, Any]]]:
        """How each node's share of the attempt ended, None for those that are gone without a word."""
        self._delay_s = _FIRST_LOOK_S
        if not self._others:
            return [own]
        while True:
            told = self._look()
            exits = [told.get(f"exit.{plan.attempt}.{node}") for node in range(self._share.nodes)]
            exits[self._share.node] = own
            open_nodes = [node for node, record in enumerate(exits) if record is None]
            begun_anew = [
                node
                for node in open_nodes
                if told.get(f"here.{node}", {}).get("word") != plan.seen[str(node)]
            ]
            missed = self._pulse.missed(told, open_nodes)
            if not set(open_nodes) - {*missed, *begun_anew}:
                return exits
            self._rest()

    def announce_end(self, plan: AttemptPlan, status: int) -> AttemptPlan:
        """It is over: the others send what they have. The plan that says so."""
        over = plan._replace(life=f"{plan.life}.over", over=status)
        if self._others:
            self._announce(over)
        return over

    def await_sent(self, over: AttemptPlan, nodes: List[int]) -> None:
        """Until what these nodes wrote is in the store, or they are gone."""
        self._delay_s = _FIRST_LOOK_S
        while nodes:
            told = self._look()
            left = [node for node in nodes if told.get(f"sent.{node}", {}).get("life") != over.life]
            if not set(left) - set(self._pulse.missed(told, left)):
                return
            self._rest()

    def _announce(self, plan: AttemptPlan) -> None:
        patiently(lambda: self._told.tell("meet", plan._asdict()), self._wait)

    def _hosts(self, here: Dict[int, Dict[str, Any]]) -> List[str]:
        """All nodes by the service's names where it has told them, else by their own; the first is where
        ranks meet."""
        known = self._share.hosts or ["", *(str(here[node]["host"]) for node in sorted(here))]
        return [self._share.master or known[0] or own_address(), *known[1:]]

    # -- the others

    def join(self, done: Optional[AttemptPlan]) -> AttemptPlan:
        """The next attempt after the one that is done, or the plan that says that it is over.

        Alone when the leader does not call, or is gone.
        """
        self._delay_s = _FIRST_LOOK_S
        ack = "" if done is None else done.life  # the leader may not have read it yet
        deadline = time.monotonic() + _GATHER_S
        while True:
            facts = {"word": self._word, "ack": ack, "host": own_address()}
            patiently(lambda: self._told.tell(f"here.{self._share.node}", facts), self._wait)  # noqa: B023
            while True:
                told = self._look()
                plan = self._called(told, done)
                if plan is not None:
                    break
                end = patiently(self._told.end, self._wait)
                if end is not None:  # without this node, which has nothing to add
                    return AttemptPlan("", 0, [], 0, {}, retries.status(end["state"], end.get("exit_code")))
                # One that runs longer is waited for; one that has not called yet may have left an old beat.
                is_gone = time.monotonic() > deadline if done is None else self._pulse.missed(told, [0])
                if is_gone:
                    raise Alone("node 0 does not say which attempt it is")
                self._rest()
            if plan.over is not None or ack == plan.life:
                return plan
            ack = plan.life

    def _called(self, told: Dict[str, Dict[str, Any]], done: Optional[AttemptPlan]) -> Optional[AttemptPlan]:
        """The plan that is meant for this process, and is another than the one that is done."""
        meet = told.get("meet")
        if meet is None or meet["seen"].get(str(self._share.node)) != self._word:
            return None
        plan = AttemptPlan(**meet)
        return None if done is not None and plan.life == done.life else plan

    def leave(self, plan: AttemptPlan, is_sent: bool) -> None:
        """This node sends no more. Waits until the leader has ended the run, or is gone: the service ends the
        others when one of the nodes ends badly."""
        self._delay_s = _FIRST_LOOK_S
        self.tell_sent(plan, is_sent)
        while patiently(self._told.end, self._wait) is None:
            if self._pulse.missed(self._look(), [0]):
                return  # the next life of the job wants to know what was told
            self._rest()
        self.forget()

    def forget(self) -> None:
        """The run has ended, and the leader has removed what was told: this node may have told more since."""
        node = self._share.node
        own = [f"{word}.{node}" for word in ("here", "beat", "sent")]
        try:
            patiently(lambda: self._told.forget(*own), self._wait)
        except ObjectsError:
            pass  # little is left, and how the run ended is known

    # -- all

    def tell_sent(self, plan: AttemptPlan, is_sent: bool) -> None:
        """This node sends no more; whether all that it wrote in this attempt is in the store."""
        facts = {"life": plan.life, "attempt": plan.attempt if is_sent else None}
        patiently(lambda: self._told.tell(f"sent.{self._share.node}", facts), self._wait)

    def is_sent(self, attempt: int) -> bool:
        """Whether all that the nodes wrote in this attempt is in the store, as each of them said."""
        sent = [self._told.heard(f"sent.{node}") for node in range(self._share.nodes)]
        return all(one is not None and one.get("attempt") == attempt for one in sent)

    def _look(self) -> Dict[str, Dict[str, Any]]:
        def look() -> Dict[str, Dict[str, Any]]:
            self._pulse.beat()
            return self._told.look()

        return patiently(look, self._wait)

    def _rest(self) -> None:
        delay_s, self._delay_s = self._delay_s, min(self._delay_s * 1.4, LOOK_S)
        if not self._wait(delay_s):
            raise ToldToEnd
