"""How a run is stopped, step by step, for any caller and any number of calls."""

from __future__ import annotations

import signal
from pathlib import Path

from gofer.core.node_request import decode
from gofer.node import watch
from gofer.queue.active_run import ActiveRun
from gofer.queue.database import OWN_GRACE, Queue, RequestFields
from gofer.queue.scheduler import Demand, Grant, demand_of

LAYOUT = {"nodes": 2, "gpus_per_node": 0, "procs_per_node": 3, "cpus_per_proc": 2}
QUEUED: RequestFields = {"id": "r1", "priority": 0, "store": "/s", "gpus": 0, "block": 0}
REQUEST = {**QUEUED, "grace_s": 10.0, "time_limit_s": None, "layout": LAYOUT}


def active(tmp_path: Path, *, cancel_grace_s: float | None = None) -> ActiveRun:
    """A run on two nodes, asked to stop with that grace before its supervisor found it."""
    queue = Queue(str(tmp_path))
    queue.add(QUEUED, [("r1", None, None)])
    (entry,) = queue.load_open()
    queue.close()
    entry.cancel_grace_s, entry.agents = cancel_grace_s, [[11, 1], [12, 2]]
    return ActiveRun(entry, decode(REQUEST), Grant([[], []], 2), adopted=False)


def test_nobody_is_signalled_unasked(tmp_path: Path) -> None:
    assert [active(tmp_path).next_request(now) for now in (0.0, 1e9)] == [None, None]


def test_gently_then_firmly_then_the_agent_itself(tmp_path: Path) -> None:
    one = active(tmp_path)
    one.ask_to_stop(OWN_GRACE)
    fields = [(now, one.next_request(float(now))) for now in range(100, 180)]
    assert [(now, number) for now, number in fields if number is not None] == [
        (100, watch.STOP),  # the agent ends it within its ten seconds of grace, unless it is stuck
        (125, watch.STOP_NOW),
        (140, signal.SIGKILL),
        (155, signal.SIGKILL),
        (170, signal.SIGKILL),
    ]


def test_with_a_grace_of_the_askers_own(tmp_path: Path) -> None:
    one = active(tmp_path)
    one.ask_to_stop(60.0)
    assert one.next_request(0.0) == watch.STOP_PATIENTLY
    assert one.next_request(59.0) is None
    assert one.next_request(60.0) == watch.STOP_NOW


def test_without_any_grace(tmp_path: Path) -> None:
    one = active(tmp_path)
    one.ask_to_stop(0.0)
    assert one.next_request(0.0) == watch.STOP_NOW


def test_a_second_request_starts_again_only_with_another_grace(tmp_path: Path) -> None:
    one = active(tmp_path)
    one.ask_to_stop(3600.0)
    assert one.next_request(0.0) == watch.STOP_PATIENTLY
    one.ask_to_stop(3600.0)
    assert one.next_request(1.0) is None
    one.ask_to_stop(0.0)
    assert one.next_request(2.0) == watch.STOP_NOW


def test_a_new_supervisor_asks_from_the_beginning(tmp_path: Path) -> None:
    assert active(tmp_path, cancel_grace_s=5.0).next_request(0.0) == watch.STOP_PATIENTLY


def test_what_a_run_needs_is_never_more_cpus_than_there_are(tmp_path: Path) -> None:
    assert demand_of(decode(REQUEST), cores=64) == Demand(2, 0, 12, None, 0, 1)
    assert demand_of(decode(REQUEST), cores=4).cpus == 4
