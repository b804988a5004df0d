"""What a waiting run lacks: from a queue's file alone, by the scheduler's own arithmetic."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gofer.backends.base import Waiting
from gofer.backends.queue_client import explain
from gofer.core import processes
from gofer.queue import waiting_reasons
from gofer.queue.database import Queue
from gofer.queue.gpu_leases import Leases
from gofer.queue.waiting_reasons import WaitingFacts

CORES = len(os.sched_getaffinity(0))


def add(
    queue: Queue, name: str, gpus: int, *, held: list[list[int]] | None = None, **changes: object
) -> None:
    """A run of one node on a target of two nodes with two GPUs each; `held` are its GPUs when it runs."""
    run = f"r261116-000000-{name}"
    layout = {"nodes": 1, "gpus_per_node": gpus, "procs_per_node": 1, "cpus_per_proc": 0}
    body: Any = {"id": run, "layout": layout, "gpus": 4, "block": 2, "priority": 0, "store": ""}
    body.update({"time_limit_s": None}, **changes)
    queue.add(body, [(run, None, None)])
    if held is not None:
        (entry,) = [one for one in queue.load_open() if one.id == run]
        entry.state, entry.gpus, entry.started_at = "running", held, time.time()
        queue.save([entry])


@pytest.fixture
def queue_home(tmp_path: Path) -> str:
    return str(tmp_path / "engine")


def waiting(queue_home: str, name: str) -> WaitingFacts:
    found = waiting_reasons.waiting(queue_home, f"r261116-000000-{name}")
    assert found is not None
    return found


def test_gpus_that_are_free_but_not_on_one_node(queue_home: str) -> None:
    with closing(Queue(queue_home)) as queue:
        add(queue, "aaaaaa", 1, held=[[0]])
        add(queue, "bbbbbb", 1, held=[[3]])
        add(queue, "cccccc", 2)
    found = waiting(queue_home, "cccccc")
    assert found.lacks == ["gpus"]
    words = "it needs 2 GPUs (2 of 4 free, not 2 on one node); held by aaaaaa (1 GPU), bbbbbb (1 GPU)"
    assert explain(found) == Waiting(words, 0)


def test_an_estimate_needs_every_limit_that_it_depends_on(queue_home: str) -> None:
    with closing(Queue(queue_home)) as queue:
        add(queue, "aaaaaa", 2, held=[[0, 1]], time_limit_s=100.0)
        add(queue, "bbbbbb", 2, held=[[2, 3]])
        add(queue, "cccccc", 2)
        add(queue, "dddddd", 2)
    estimate = waiting(queue_home, "cccccc").estimate
    assert estimate == pytest.approx(time.time() + 100.0, abs=50.0)
    assert waiting(queue_home, "dddddd").estimate is None


def test_a_run_that_does_not_wait_has_nothing_to_explain(queue_home: str) -> None:
    with closing(Queue(queue_home)) as queue:
        add(queue, "aaaaaa", 1, held=[[0]])
    assert waiting_reasons.waiting(queue_home, "r261116-000000-aaaaaa") is None
    assert waiting_reasons.waiting(queue_home, "r261116-000000-zzzzzz") is None


def test_only_the_largest_holders_are_named(queue_home: str) -> None:
    with closing(Queue(queue_home)) as queue:
        for index in range(4):
            add(queue, f"run{index}", 1, held=[[index]])
        for index in range(4, 6):
            add(queue, f"run{index}", 1, held=[[]], layout=_cpus(CORES))
        add(queue, "wait00", 1, layout={**_cpus(1), "gpus_per_node": 1})
    words = explain(waiting(queue_home, "wait00")).why
    assert words.startswith(
        f"it needs 1 GPU (0 of 4 free) and 1 CPU (0 of {CORES} free); held by run0 (1 GPU), "
    )
    assert words.endswith(" and 2 more")


def test_a_run_that_is_next_says_so(queue_home: str) -> None:
    with closing(Queue(queue_home)) as queue:
        add(queue, "aaaaaa", 1)
    assert explain(waiting(queue_home, "aaaaaa")).why == "no reason: it starts next"


def test_a_run_that_is_being_stopped_says_so(queue_home: str) -> None:
    with closing(Queue(queue_home)) as queue:
        add(queue, "aaaaaa", 1)
        queue.ask_cancel(["r261116-000000-aaaaaa"], None)
    assert explain(waiting(queue_home, "aaaaaa")).why == "it is about to be stopped, as requested"


def test_gpus_of_another_queue_are_somebody_elses(queue_home: str, tmp_path: Path) -> None:
    me = processes.identify(os.getpid())
    assert me is not None
    leases = str(tmp_path)
    assert Leases(leases, "/another/queue").take({3: me})
    with closing(Queue(queue_home)) as queue:
        add(queue, "aaaaaa", 4, leased=True, block=4)
        add(queue, "bbbbbb", 4, leased=False, block=4)
    shared = waiting_reasons.waiting(queue_home, "r261116-000000-aaaaaa", leases=leases)
    own = waiting_reasons.waiting(queue_home, "r261116-000000-bbbbbb", leases=leases)
    assert shared is not None
    assert own is not None
    assert explain(shared).why == "it needs 4 GPUs (3 of 4 free); held by another queue of yours (1 GPU)"
    assert own.fits


def test_leases_that_cannot_be_used_are_the_reason(queue_home: str, tmp_path: Path) -> None:
    open_to_all = tmp_path / "shared"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with closing(Queue(queue_home)) as queue:
        add(queue, "aaaaaa", 1, leased=True)
        add(queue, "bbbbbb", 1, leased=False)
    leased = waiting_reasons.waiting(queue_home, "r261116-000000-aaaaaa", leases=str(open_to_all))
    own = waiting_reasons.waiting(queue_home, "r261116-000000-bbbbbb", leases=str(open_to_all))
    assert leased is not None
    assert own is not None
    assert "cannot be shared with other users" in explain(leased).why
    assert f"{open_to_all} is not safe from other users" in explain(leased).why
    assert leased.estimate is None
    assert own.sharing_problem is None


def _cpus(count: int) -> dict[str, int]:
    return {"nodes": 1, "gpus_per_node": 0, "procs_per_node": 1, "cpus_per_proc": count}
