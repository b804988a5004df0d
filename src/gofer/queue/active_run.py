"""A run that holds CPUs and GPUs: its grant, its agents that still work, and the requests to stop it."""

from __future__ import annotations

import math
import os
import signal
import time
from typing import Iterator

from gofer.core import launch
from gofer.core.node_request import NodeRequest
from gofer.core.processes import ProcessIdentity
from gofer.node.code import work_folders
from gofer.node.rendezvous.run_nodes import own_nodes
from gofer.node.watch import STOP, STOP_NOW, STOP_PATIENTLY
from gofer.queue.agent import AgentMessage
from gofer.queue.agent_pool import Share
from gofer.queue.database import OWN_GRACE, QueuedRun
from gofer.queue.scheduler import Grant

# An agent that has not ended this long after a request to stop gets the next, harder request.
_STUCK_S = 15.0


class ActiveRun:
    """One run from its start to its end. `adopted`: an earlier supervisor started the run, and this one found
    it.
    """

    def __init__(self, entry: QueuedRun, request: NodeRequest, grant: Grant, *, adopted: bool) -> None:
        self.entry = entry
        self.request = request
        self.grant = grant
        self.adopted = adopted
        limit = request.time_limit_s
        self.ends_at = time.monotonic() + limit if limit is not None else math.inf
        self.spans = request.span is not None
        self._own = own_nodes(request)
        self.left = {
            Share(entry.id, entry.attempt, node): ProcessIdentity(*who)
            for node, who in zip(self._own, entry.agents)
        }
        self._requests = self._plan_requests()
        self.next_request_at = math.inf if entry.cancel_grace_s is None else -math.inf

    @property
    def store(self) -> str:
        return str(self.request.store)

    @property
    def nodes(self) -> int:
        return self.request.layout.nodes

    @property
    def where(self) -> tuple[str, str, int, NodeRequest]:
        """The store, run, attempt and request: the arguments that gofer.node.rendezvous.run_nodes expects."""
        return self.store, self.entry.id, self.entry.attempt, self.request

    def position(self, share: Share) -> int:
        """The place of the share among those of this machine."""
        return self._own.index(share.node)

    def ask_to_stop(self, grace_s: float) -> None:
        """Plan the requests to stop. A call with another grace replaces the plan: a person may shorten the
        grace.
        """
        if grace_s != self.entry.cancel_grace_s:
            self.entry.cancel_grace_s = grace_s
            self._requests = self._plan_requests()
            self.next_request_at = -math.inf

    def next_request(self, now: float) -> int | None:
        """The signal to send to the agents now so that the run stops; None when none is due."""
        if now < self.next_request_at:
            return None
        number, patience_s = next(self._requests)
        self.next_request_at = now + patience_s
        return number

    def _plan_requests(self) -> Iterator[tuple[int, float]]:
        """Signals, each with the seconds to wait before the next: first a gentle stop, then an immediate
        stop, then SIGKILL for an agent that is stuck.
        """
        grace_s = self.entry.cancel_grace_s
        if grace_s == OWN_GRACE:
            yield STOP, self.request.grace_s + _STUCK_S
        elif grace_s:
            yield STOP_PATIENTLY, grace_s
        yield STOP_NOW, _STUCK_S
        while True:
            yield signal.SIGKILL, _STUCK_S

    def message(self, share: Share, *, queue_home: str, port: int) -> AgentMessage:
        """What the agent of one node receives in addition to the request: its place, arguments and code
        folder.
        """
        entry, layout = self.entry, self.request.layout
        place = launch.NodePlace(
            run_id=entry.id,
            attempt=entry.attempt,
            node=share.node,
            nodes=layout.nodes,
            procs=layout.procs_per_node,
            gpus=self.grant.gpus[self._own.index(share.node)] if self.request.gpus else None,
            hosts=["127.0.0.1"] * layout.nodes,
            port=port,
            first_node_only=layout.first_node_only,
        )
        is_row = entry.row is not None
        copies = work_folders.copies_folder(queue_home, entry.request, self.request, is_row=is_row)
        code = os.path.join(copies, self._copy_name(share))
        return {"place": place._asdict(), "args": entry.args, "code": code}

    def _copy_name(self, share: Share) -> str:
        """The rows of an array share one working copy, which agents copy further (see
        gofer.node.code.row_folders). Any other run gets a fresh copy for each node and attempt.
        """
        copy = "code" if self.entry.row is not None else f"{share.attempt}-{share.node}"
        return os.path.join(copy, work_folders.copy_name(self.request.code))
