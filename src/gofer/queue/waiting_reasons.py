"""What a waiting run lacks in the queue of a machine, and which runs or people hold it. Reads only.

The arithmetic is that of the supervisor, done in the caller's process. No supervisor has to run.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import closing
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence

from gofer.core.node_request import NodeRequest
from gofer.queue import scheduler
from gofer.queue.database import Queue, QueuedRun
from gofer.queue.dependencies import Dependencies
from gofer.queue.gpu_leases import LeaseFolderError, Leases, usual_folder
from gofer.queue.scheduler import Demand, Grant, HeldGrant, Pool, demand_of

_QUEUED = "queued"
# More open runs are not read only to show why each waits.
_MOST_READ = 200


class Holder(NamedTuple):
    """A run, by its id, or another person, by name, with what they hold."""

    run_id: Optional[str]
    person: Optional[str]
    gpus: int
    cpus: int
    memory_mib: int = 0


class WaitingFacts(NamedTuple):
    """What a run waits for.

    `ahead` is the number of runs before it, `head` the first of them, which it must not delay. `lacks` names
    what too little is free of: `gpus`, `cpus`, `memory_mib`. `holders` hold some of it, the largest first.
    `estimate` is when the run starts if every other run uses its whole time limit. `sharing_problem` says why
    the GPUs cannot be shared with the queues of other people; no run with GPUs starts then. `parents` are
    runs that have to end before this one can start, and have themselves submitted runs that wait here.
    """

    ahead: int
    head: Optional[str]
    fits: bool
    lacks: List[str]
    gpus: int
    gpus_per_node: int
    gpus_free: int
    target_gpus: int
    cpus: int
    cpus_free: int
    machine_cpus: int
    holders: List[Holder]
    retry_in_s: float
    failed_attempts: int
    is_stopping: bool
    estimate: Optional[float]
    sharing_problem: Optional[str] = None
    memory_mib: int = 0
    memory_free_mib: int = 0
    machine_memory_mib: int = 0
    parents: Sequence[str] = ()


class _View(NamedTuple):
    """The open runs of a queue with their requests. `held` is what each started run holds, by run id.

    `foreign` are the GPUs that other people's queues hold, by the name of the person.
    """

    entries: List[QueuedRun]
    requests: Dict[str, NodeRequest]
    held: Dict[str, HeldGrant]
    pool: Pool
    foreign: Dict[str, List[int]]

    def shared(self, foreign: Dict[str, List[int]]) -> _View:
        """The view for a run whose GPUs other queues may hold."""
        self.pool.foreign = {gpu for gpus in foreign.values() for gpu in gpus}
        return self._replace(foreign=foreign)

    @property
    def queue(self) -> List[QueuedRun]:
        """The waiting runs in their order."""
        return sorted((one for one in self.entries if one.state == _QUEUED), key=lambda one: one.order)

    def demand(self, entry: QueuedRun) -> Demand:
        return demand_of(self.requests[entry.request], cores=self.pool.cpus)


def waiting(queue_home: str, run_id: str, *, leases: Optional[str] = None) -> Optional[WaitingFacts]:
    """What a run waits for; for a group, what its first waiting run waits for. None when no run waits, and
    for runs that wait for other runs.

    `leases` is the folder where queues share GPUs (default: the machine's usual folder).
    """
    view = _read_queue(queue_home)
    mine = next((one for one in view.queue if run_id in (one.id, one.request)), None)
    return None if mine is None else _facts(view, mine, queue_home, leases)


def waiting_runs(
    queue_home: str, run_ids: Iterable[str], *, leases: Optional[str] = None
) -> Dict[str, WaitingFacts]:
    """As `waiting`, for several runs by their ids. Runs that do not wait are left out, and all are when the
    queue has so many open runs that reading them takes long.
    """
    with closing(Queue(queue_home)) as queue:
        if sum(queue.counts().values()) > _MOST_READ:
            return {}
    view, wanted = _read_queue(queue_home), set(run_ids)
    return {one.id: _facts(view, one, queue_home, leases) for one in view.queue if one.id in wanted}


def _facts(view: _View, mine: QueuedRun, queue_home: str, leases: Optional[str]) -> WaitingFacts:
    queue, problem = view.queue, None
    if not view.requests[mine.request].leased:
        view = view.shared({})
    else:
        try:
            view = view.shared(_foreign(queue_home, leases))
        except (LeaseFolderError, OSError) as error:
            problem = str(error)
    demand, before = view.demand(mine), queue[: queue.index(mine)]
    fits = view.pool.fit(demand) is not None
    lacks = [] if fits else _lacks(view.pool, demand)
    return WaitingFacts(
        ahead=len(before),
        head=before[0].id if before else None,
        fits=fits,
        lacks=lacks,
        gpus=demand.gpus_per_node * demand.nodes,
        gpus_per_node=demand.gpus_per_node,
        gpus_free=len(set(range(demand.target_gpus)) - view.pool.taken - view.pool.foreign),
        target_gpus=demand.target_gpus,
        cpus=demand.cpus,
        cpus_free=max(view.pool.free_cpus, 0),
        machine_cpus=view.pool.cpus,
        holders=_holders(view, lacks),
        retry_in_s=max(mine.not_before - time.time(), 0.0),
        failed_attempts=len(mine.attempts),
        is_stopping=mine.cancel_grace_s is not None,
        estimate=None if fits or before or problem else _estimate(view, demand),
        sharing_problem=problem,
        memory_mib=demand.memory_mib,
        memory_free_mib=max(view.pool.free_memory_mib, 0),
        machine_memory_mib=view.pool.memory_mib,
        parents=_parents(view, demand, lacks),
    )


def _parents(view: _View, demand: Demand, lacks: List[str]) -> List[str]:
    """The runs that submitted waiting runs, if what they hold is more than this run can do without."""
    known = {view.requests[one.request].parent for one in view.queue}
    needs = {
        "gpus": (demand.gpus_per_node * demand.nodes, demand.target_gpus),
        "cpus": (min(demand.cpus, view.pool.cpus), view.pool.cpus),
        "memory_mib": (min(demand.memory_mib, view.pool.memory_mib), view.pool.memory_mib),
    }
    for kind in lacks:
        needed, most = needs[kind]
        holders = [one for one in _holders(view, [kind]) if one.run_id in known]
        if needed + sum(int(getattr(one, kind)) for one in holders) > most:
            return [one.run_id for one in holders if one.run_id]
    return []


def _read_queue(queue_home: str) -> _View:
    pool, held = Pool.of_this_machine(), {}
    with closing(Queue(queue_home)) as queue:
        entries = queue.load_open()
        requests = {name: queue.load_request(name) for name in {one.request for one in entries}}
        dependencies = Dependencies(queue)
        dependencies.read(requests.values())
        is_held = {name: not dependencies.of(name).may_start for name in requests}
    for one in entries:
        if one.state != _QUEUED:
            demand = demand_of(requests[one.request], cores=pool.cpus)
            held[one.id] = _held(one, demand)
            pool.take(held[one.id].grant)
    # A run that waits for another one delays nobody.
    ready = [one for one in entries if one.state != _QUEUED or not is_held[one.request]]
    return _View(ready, requests, held, pool, {})


def _foreign(queue_home: str, leases: Optional[str]) -> Dict[str, List[int]]:
    found: Dict[str, List[int]] = {}
    for who, gpus in Leases(leases or usual_folder(), queue_home).others().items():
        found.setdefault(_person(int(who.partition(":")[0])), []).extend(gpus)
    return found


def _person(uid: int) -> str:
    if uid == os.getuid():
        return "another queue of yours"
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _held(entry: QueuedRun, demand: Demand) -> HeldGrant:
    began = entry.started_at or time.time()
    ends_at = math.inf if demand.limit_s is None else began + demand.limit_s
    return HeldGrant(Grant(entry.gpus, demand.cpus, demand.memory_mib), ends_at)


def _lacks(pool: Pool, demand: Demand) -> List[str]:
    """What too little is free of: `gpus`, `cpus`, `memory_mib`."""
    found = []
    if demand.gpus_per_node and pool.fit(demand._replace(cpus=0, memory_mib=0)) is None:
        found.append("gpus")
    if min(demand.cpus, pool.cpus) > pool.free_cpus:
        found.append("cpus")
    if min(demand.memory_mib, pool.memory_mib) > pool.free_memory_mib:
        found.append("memory_mib")
    return found


def _holders(view: _View, lacks: List[str]) -> List[Holder]:
    """The runs and people that hold what is lacking, the largest first."""
    found = [
        Holder(run_id, None, sum(map(len, held.grant.gpus)), held.grant.cpus, held.grant.memory_mib)
        for run_id, held in view.held.items()
    ]
    found += [Holder(None, person, len(gpus), 0) for person, gpus in view.foreign.items()]
    wanted = [one for one in found if any(getattr(one, kind) for kind in lacks)]
    return sorted(wanted, key=lambda one: [-int(getattr(one, kind)) for kind in lacks])


def _estimate(view: _View, demand: Demand) -> Optional[float]:
    at = scheduler.earliest(demand, view.pool, list(view.held.values()))
    return None if at == math.inf else at
