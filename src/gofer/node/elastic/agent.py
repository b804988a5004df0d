"""The agent of an elastic run on one node: the I/O of a `Participant`, in one loop that never waits long.

The ranks are children of a child (`generation_process`), the store is read and written by another
(`store_process`), and the lines are sockets that never block. So heartbeats go out on time whatever hangs.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Set

from gofer.core import files, retries, run_layout
from gofer.core.launch import ElasticPlace, NodePlace
from gofer.node.elastic import actions
from gofer.node.elastic.actions import Action
from gofer.node.elastic.checkpoints import CheckpointWatch
from gofer.node.elastic.generation_process import GenerationProcess, Licence, MakeNode, clock
from gofer.node.elastic.lease_store import LeaseStore
from gofer.node.elastic.lines import AgentLines
from gofer.node.elastic.participant import Participant
from gofer.node.elastic.records import Generation, MemberFacts
from gofer.node.elastic.rules import ElasticRules, ElasticTiming
from gofer.node.elastic.store_process import StoreAnswer, StoreProcess
from gofer.node.rendezvous.base import free_port
from gofer.node.watch import Watch

_LOOK_S = 0.25
_CLOSE_TO_S = 0.02
# What a machine that is taken back is given to write a checkpoint, where the cluster does not say.
_NOTICE_S = 30.0


class ElasticContext(NamedTuple):
    """What the cluster's own part constructs for an agent.

    `store` is the folder with the run's folder, which the ranks write to. `key` is a secret that all agents
    of the run have, and nobody else. `address` is where the other agents reach this one. `requests` is a
    folder of this node for requests to the ranks. `make_node` makes the node of a generation. `report`
    receives `started <time>` whenever ranks were started.
    """

    run_id: str
    slot: int
    procs: int
    gpus: Optional[List[int]]
    store: str
    outputs: str
    requests: str
    key: bytes
    address: str
    rules: ElasticRules
    checkpoints: List[str]
    lease_store: LeaseStore
    make_node: MakeNode
    report: Callable[[str], None]
    timing: ElasticTiming = ElasticTiming()


class ElasticAgent:
    """One agent. Call `run` once, in the main thread. `watch` is that of this process, and `name` its name in
    the environment of its ranks.
    """

    def __init__(self, context: ElasticContext, watch: Watch, spared: Set[int], *, name: str) -> None:
        self._context = context
        self._watch = watch
        self._name = name
        self._spared = spared
        word = os.urandom(8).hex()
        self._lines = AgentLines(context.key)
        facts = MemberFacts(
            word=word,
            host=os.uname().nodename,
            address=context.address,
            port=self._lines.port,
            rank_port=free_port(),
            gpus=len(context.gpus or ()),
            slot=context.slot,
        )
        self._participant = Participant(context.rules, context.timing, facts, clock())
        notes = os.path.join(context.store, run_layout.attempts_key(context.run_id))
        self._store = StoreProcess(context.lease_store, notes)
        spared.add(self._store.pid)
        self._lines.watch(self._store.socket)
        self._licence = Licence()
        self._child: Optional[GenerationProcess] = None
        self._checkpoints: Optional[CheckpointWatch] = None
        self._wish: Optional[Dict[str, object]] = None
        self._is_done = False
        self._is_aborted = self._is_firm = False

    def run(self) -> int:
        """Take part until the run is over, or this node must leave. Blocks. 0 for a run that succeeded."""
        self._perform(self._participant.tick(clock()))
        while not self._is_done:
            left_s = self._participant.member.licensed_until - clock()
            wait_s = min(_LOOK_S, left_s) if left_s > 0 else _LOOK_S
            self._watch.wait(self._lines.fileno(), max(_CLOSE_TO_S, wait_s))
            # A machine that was suspended looks at its clock before it reads anything.
            self._perform(self._participant.tick(clock()))
            self._receive()
            self._perform(self._participant.tick(clock()))
        self._lines.close()
        self._store.close()
        over = self._participant.member.over
        return 0 if over is None else retries.status(str(over["state"]), over.get("exit_code"))

    # -- events

    def _receive(self) -> None:
        participant, now = self._participant, clock()
        self._look_at_requests()
        for answer in self._store.answers():
            self._take(answer)
        for event in self._lines.events():
            event(participant, now)
        result = None if self._child is None else self._child.ended(self._context.store)
        if result is not None:
            self._child = self._checkpoints = None
            os.chdir("/")
            participant.ranks_ended(result, free_port())
        if self._checkpoints is not None and self._child is not None and self._checkpoints.look():
            participant.checkpoint_written(self._child.place.attempt)
            self._checkpoints = None

    def _look_at_requests(self) -> None:
        cause, child = self._watch.cause, self._child
        if cause == "shutdown":
            self._participant.leave(_NOTICE_S)
        if cause != "user" or (self._is_aborted and self._is_firm == self._watch.is_firm):
            return
        self._is_aborted, self._is_firm = True, self._watch.is_firm
        self._participant.cancel()
        if child is not None:
            child.abort(at_once=self._is_firm)
        if self._is_firm:
            self._is_done = child is None and self._participant.leader is None

    def _take(self, answer: StoreAnswer) -> None:
        participant, now = self._participant, clock()
        if answer.failed:
            participant.store_failed(now)
            return
        if answer.wish is not None and answer.wish != self._wish:
            self._wish = answer.wish
            participant.wish(self._context.rules.with_wish(answer.wish))
        if answer.written is None:
            participant.lease_read(answer.lease, now)
        elif answer.written:
            participant.lease_written(now)
        else:
            participant.lease_conflict(now)

    # -- actions

    def _perform(self, todo: List[Action]) -> None:
        for action in todo:
            if isinstance(action, actions.ReadLease):
                self._store.read()
            elif isinstance(action, actions.WriteLease):
                self._store.write(action.lease)
            elif isinstance(action, actions.NoteGeneration):
                self._store.note_generation(action.generation)
            elif isinstance(action, actions.NoteEnd):
                self._store.note_end(action)
            elif isinstance(action, actions.LeaveRun):
                self._is_done = True
            elif not self._lines.perform(action):
                self._perform_on_ranks(action)
        self._licence.until = self._participant.member.licensed_until

    def _perform_on_ranks(self, action: Action) -> None:
        if isinstance(action, actions.StartRanks):
            self._start(action.generation, action.node)
        elif self._child is None:
            return
        elif isinstance(action, actions.StopRanks):
            self._child.stop()
        elif isinstance(action, actions.KillRanks):
            self._child.kill()
        elif isinstance(action, actions.RequestCheckpoint):
            files.write_whole(os.path.join(self._context.requests, "checkpoint"), b"")
            self._checkpoints = CheckpointWatch(self._context.outputs, self._context.checkpoints)

    def _start(self, generation: Generation, node: int) -> None:
        context = self._context
        os.makedirs(context.requests, exist_ok=True)
        files.remove(os.path.join(context.requests, "checkpoint"))
        self._licence.until = self._participant.member.licensed_until
        rules = self._participant.rules
        place = NodePlace(
            run_id=context.run_id,
            attempt=generation.number,
            node=node,
            nodes=len(generation.members),
            procs=context.procs,
            gpus=context.gpus,
            hosts=[one.address for one in generation.members],
            port=generation.port,
            elastic=ElasticPlace(rules.min_nodes, rules.max_nodes, rules.retries, context.requests),
        )
        self._child = GenerationProcess(place, context.make_node, self._licence, self._name)
        context.report(f"started {time.time()!r}")
        _print(f"generation {generation.number}: node {node} of {place.nodes} ({generation.why})")


def _print(words: str) -> None:
    print(f"gofer: {words}", file=sys.stderr, flush=True)
