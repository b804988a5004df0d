"""Decide which waiting runs start now: by priority, then first come first served, with back-fill. Pure.

The first run that does not fit is the head. Runs behind the head may start only when they cannot delay the
head: when they end, by their time limit, before the head could start, or when both fit at the same time. When
the runs that hold resources have no time limit, nobody can tell when the head could start. Then any run that
fits may start before the head, until the head has waited for `PATIENCE_S`.
"""

from __future__ import annotations

import math
import os
from typing import Callable, Iterable, NamedTuple, Sequence, TypeVar

from gofer.core.node_request import NodeRequest
from gofer.node.memory import limit_kib
from gofer.node.rendezvous.run_nodes import own_nodes

PATIENCE_S = 300.0
_DEPTH = 256

T = TypeVar("T")


class Demand(NamedTuple):
    """What a run needs, and the size of the target it was sent to."""

    nodes: int
    gpus_per_node: int
    cpus: int
    limit_s: float | None
    target_gpus: int
    block: int
    memory_mib: int = 0


def demand_of(request: NodeRequest, *, cores: int) -> Demand:
    """What a run of this request needs. A request for more CPUs than the machine has means all of them, and
    so does one for more memory in `Pool.fit`.
    """
    layout, nodes = request.layout, len(own_nodes(request))
    cpus = nodes * layout.procs_per_node * layout.cpus_per_proc
    return Demand(
        nodes=nodes,
        gpus_per_node=layout.gpus_per_node,
        cpus=min(cpus, cores),
        limit_s=request.time_limit_s,
        target_gpus=request.gpus,
        block=request.block or 1,
        memory_mib=nodes * request.memory_mib,
    )


class Grant(NamedTuple):
    """What a run holds: the GPUs of each node, a number of CPUs, and memory."""

    gpus: list[list[int]]
    cpus: int
    memory_mib: int = 0


class HeldGrant(NamedTuple):
    """A grant in use; `ends_at` is infinite without a time limit."""

    grant: Grant
    ends_at: float


class Pool:
    """The GPUs, CPUs and memory of this machine, and what is taken. Other queues hold the `foreign` GPUs.

    Memory counts only as runs ask for it: a run that asks for none takes none.
    """

    def __init__(self, cpus: int, memory_mib: int = 0) -> None:
        self.cpus = cpus
        self.free_cpus = cpus
        self.memory_mib = memory_mib
        self.free_memory_mib = memory_mib
        self.taken: set[int] = set()
        self.foreign: set[int] = set()

    @classmethod
    def of_this_machine(cls) -> Pool:
        """What runs may use here: the affinity mask and the control group may allow less than there is."""
        return cls(len(os.sched_getaffinity(0)), limit_kib() >> 10)

    def without(self, held: Iterable[Grant]) -> Pool:
        """A pool of the same size in which only `held` is taken."""
        pool = Pool(self.cpus, self.memory_mib)
        pool.foreign = self.foreign
        for grant in held:
            pool.take(grant)
        return pool

    def take(self, grant: Grant) -> None:
        self.free_cpus -= grant.cpus
        self.free_memory_mib -= grant.memory_mib
        for gpus in grant.gpus:
            self.taken.update(gpus)

    def give_back(self, grant: Grant) -> None:
        self.free_cpus += grant.cpus
        self.free_memory_mib += grant.memory_mib
        for gpus in grant.gpus:
            self.taken.difference_update(gpus)

    def fit(self, demand: Demand) -> Grant | None:
        """What the run would get now, or None. GPUs of one node lie in one block of `block`."""
        cpus, memory_mib = min(demand.cpus, self.cpus), min(demand.memory_mib, self.memory_mib)
        if cpus > self.free_cpus or memory_mib > self.free_memory_mib:
            return None
        if not demand.gpus_per_node:
            return Grant([[] for _ in range(demand.nodes)], cpus, memory_mib)
        gpus = self._fit_gpus(demand)
        return None if gpus is None else Grant(gpus, cpus, memory_mib)

    def _fit_gpus(self, demand: Demand) -> list[list[int]] | None:
        blocks, taken = [], self.taken | self.foreign
        for start in range(0, demand.target_gpus, demand.block):
            stop = min(start + demand.block, demand.target_gpus)
            blocks.append([index for index in range(start, stop) if index not in taken])
        nodes: list[list[int]] = []
        # First each node gets a block of its own. Then a block may serve two nodes, since all are this
        # machine.
        while len(nodes) < demand.nodes:
            roomy = [block for block in blocks if len(block) >= demand.gpus_per_node]
            if not roomy:
                return None
            for block in roomy[: demand.nodes - len(nodes)]:
                nodes.append(block[: demand.gpus_per_node])
                del block[: demand.gpus_per_node]
        return nodes


def choose(
    waiting: Iterable[T],
    demand_of: Callable[[T], Demand],
    pool: Pool,
    held: Sequence[HeldGrant],
    *,
    now: float,
    passed_over_s: float,
) -> tuple[list[tuple[T, Grant]], T | None]:
    """The runs to start, in order, with their grants (taken from `pool`), and the head.

    `waiting` is in queue order; `passed_over_s` is how long its head has been waiting for room.
    """
    starts: list[tuple[T, Grant]] = []
    holding = list(held)
    head: T | None = None
    for position, candidate in enumerate(waiting):
        if pool.free_cpus <= 0 or (head is not None and position > _DEPTH):
            head = candidate if head is None else head
            break
        demand = demand_of(candidate)
        grant = pool.fit(demand)
        if grant is None:
            head = candidate if head is None else head
            continue
        if head is not None and not _harmless(
            demand_of(head), demand, grant, pool, holding, now, passed_over_s
        ):
            continue
        pool.take(grant)
        holding.append(HeldGrant(grant, now + (math.inf if demand.limit_s is None else demand.limit_s)))
        starts.append((candidate, grant))
    return starts, head


def _harmless(
    head: Demand,
    demand: Demand,
    grant: Grant,
    pool: Pool,
    held: Sequence[HeldGrant],
    now: float,
    passed_over_s: float,
) -> bool:
    if pool.without([grant]).fit(head) is not None and _beside(head, grant, pool, held):
        return True
    could_start = earliest(head, pool, held)
    if could_start == math.inf:
        return passed_over_s < PATIENCE_S
    return demand.limit_s is not None and now + demand.limit_s <= could_start


def _beside(head: Demand, grant: Grant, pool: Pool, held: Sequence[HeldGrant]) -> bool:
    """Whether the head could start as early as before even if this grant were never given back."""
    before = earliest(head, pool, held)
    return earliest(head, pool, [*held, HeldGrant(grant, math.inf)]) <= before


def earliest(head: Demand, pool: Pool, held: Sequence[HeldGrant]) -> float:
    """When the head fits if every run ends at its time limit; infinite when this cannot be known."""
    left = sorted(held, key=lambda one: one.ends_at)
    while left:
        ends_at = left[0].ends_at
        if ends_at == math.inf:
            return math.inf
        left = [one for one in left if one.ends_at > ends_at]
        if pool.without([one.grant for one in left]).fit(head) is not None:
            return ends_at
    return math.inf
