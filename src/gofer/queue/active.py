"""A run that holds resources: what it was granted, which of its agents are left, and how far its stopping
has got.
"""

from __future__ import annotations

import math
import os
import signal
import time
from typing import Any, Iterator

from gofer.core import launch
from gofer.core.processes import ProcessIdentity
from gofer.node import work_folders
from gofer.node.rendezvous.machines import own_nodes
from gofer.node.watch import STOP, STOP_NOW, STOP_PATIENTLY
from gofer.queue.agent_pool import Share
from gofer.queue.database import OWN_GRACE, QueuedRun
from gofer.queue.scheduler import Demand, Grant

_STUCK_S = 15.0


class Active:
    """One run from its start, or from the moment a new supervisor found it (`adopted`), to its end."""

    def __init__(self, entry: QueuedRun, request: dict[str, Any], grant: Grant, *, adopted: bool) -> None:
        self.entry = entry
        self.request = request
        self.grant = grant
        self.adopted = adopted
        limit = request["time_limit_s"]
        self.ends_at = time.monotonic() + limit if limit is not None else math.inf
        self.spans = request.get("span") is not None
        self._own = own_nodes(request)
        self.left = {
            Share(entry.id, entry.attempt, node): ProcessIdentity(*who)
            for node, who in zip(self._own, entry.agents)
        }
        self._requests = self._plan_requests()
        self.next_request_at = math.inf if entry.cancel_grace_s is None else -math.inf

    @property
    def store(self) -> str:
        return str(self.request["store"])

    @property
    def nodes(self) -> int:
        return int(self.request["layout"]["nodes"])

    @property
    def where(self) -> tuple[str, str, int, dict[str, Any]]:
        """The store, run, attempt and request, as gofer.node.rendezvous.machines asks for them."""
        return self.store, self.entry.id, self.entry.attempt, self.request

    def ask_to_stop(self, grace_s: float) -> None:
        """Again with another grace begins anew: who was patient may have lost patience."""
        if grace_s != self.entry.cancel_grace_s:
            self.entry.cancel_grace_s = grace_s
            self._requests = self._plan_requests()
            self.next_request_at = -math.inf

    def next_request(self, now: float) -> int | None:
        """The signal that its agents are due now to have it stopped; None when it is not time for one."""
        if now < self.next_request_at:
            return None
        number, patience_s = next(self._requests)
        self.next_request_at = now + patience_s
        return number

    def _plan_requests(self) -> Iterator[tuple[int, float]]:
        """Each with the time it is given: gently, firmly, and then the agent itself is stuck."""
        grace_s = self.entry.cancel_grace_s
        if grace_s == OWN_GRACE:
            yield STOP, self.request["grace_s"] + _STUCK_S
        elif grace_s:
            yield STOP_PATIENTLY, grace_s
        yield STOP_NOW, _STUCK_S
        while True:
            yield signal.SIGKILL, _STUCK_S

    def message(self, share: Share, *, engine: str, port: int) -> dict[str, Any]:
        """What the agent of one node is told, besides the request itself."""
        entry, layout = self.entry, self.request["layout"]
        place = launch.NodePlace(
            run_id=entry.id,
            attempt=entry.attempt,
            node=share.node,
            nodes=layout["nodes"],
            procs=layout["procs_per_node"],
            gpus=self.grant.gpus[self._own.index(share.node)] if self.request["gpus"] else None,
            hosts=["127.0.0.1"] * layout["nodes"],
            port=port,
            first_node_only=layout.get("first_node_only", False),
        )
        is_row = entry.row is not None
        copies = work_folders.copies_folder(engine, entry.request, self.request, is_row=is_row)
        code = os.path.join(copies, self._copy_name(share))
        return {"place": place._asdict(), "args": entry.args, "code": code}

    def _copy_name(self, share: Share) -> str:
        """Agents copy the one of an array for their rows: see gofer.node.row_folders. Any other run gets a
        fresh copy for each node and attempt.
        """
        return "code" if self.entry.row is not None else f"{share.attempt}-{share.node}"


def spool_folder(engine: str, request_id: str) -> str:
    """Where the runs of a request write what goes to a store that is not a folder; laid out as a store."""
    return os.path.join(engine, "spool", request_id)


def unsent_folder(engine: str, run_id: str) -> str:
    """Where the folder of a run is kept that could not be brought to its store."""
    return os.path.join(engine, "unsent", run_id)


def demand_of(request: dict[str, Any], *, cores: int) -> Demand:
    """What a run of this request needs. More CPUs than there are is all of them."""
    layout, nodes = request["layout"], len(own_nodes(request))
    cpus = nodes * layout["procs_per_node"] * layout["cpus_per_proc"]
    return Demand(
        nodes=nodes,
        gpus_per_node=layout["gpus_per_node"],
        cpus=min(cpus, cores),
        limit_s=request["time_limit_s"],
        target_gpus=request["gpus"],
        block=request["block"] or 1,
    )
