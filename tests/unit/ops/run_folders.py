"""Write run folders as the nodes and the queue write them, for tests that read them.

The files are those of the run folder protocol; nothing here imports the code under test.
"""

from __future__ import annotations

import json
from typing import Any

from gofer.core import run_layout as names
from gofer.model.job import Array, Job
from gofer.model.layout import Layout
from gofer.model.run import CodeOrigin, RunRecord
from gofer.storage.base import Appends, Store

T0 = 1_790_000_000.0


def make_record(run_id: str = "r261116-091233-k9qd4x", **changes: Any) -> RunRecord:
    """A record of a small run; `job` changes the job's fields, `nodes` and `procs` its layout."""
    job = {"command": ("python", "train.py", "a  b"), **changes.pop("job", {})}
    nodes, procs = changes.pop("nodes", 1), changes.pop("procs", 1)
    layout = Layout(nodes=nodes, gpus_per_node=0, procs_per_node=procs, cpus_per_proc=1)
    facts: dict[str, Any] = {
        "id": run_id,
        "name": "train",
        "target": "local",
        "backend": "local",
        "submitted_at": T0,
        "submitted_by": "ann@bench",
        "gofer": "0.1.0",
        "snapshot": None,
        "code": CodeOrigin(folder="/home/ann/project", commit="c0ffee", branch="main", dirty=True),
        **changes,
    }
    return RunRecord(job=Job(**job), layout=layout, **facts)


def make_group(run_id: str, rows: int, **changes: Any) -> RunRecord:
    """A record of an array over `seed`."""
    array = Array(columns=("seed",), rows=tuple((str(index),) for index in range(rows)))
    job = {
        "command": ("python", "train.py", "--seed={seed}"),
        **changes.pop("job", {}),
    }
    return make_record(run_id, array=array, job=job, **changes)


class RunFolder:
    """One run's folder in a store, written bit by bit."""

    def __init__(self, store: Store, run_id: str) -> None:
        self.store = store
        self.run_id = run_id

    def put(self, name: str, value: object) -> None:
        """A JSON file directly in the folder."""
        self.store.put(f"{names.run_key(self.run_id)}/{name}", json.dumps(value).encode())

    def log(self, data: bytes, *, rank: int = 0, node: int = 0, attempt: int = 1) -> str:
        """Append to a rank's log; the log's key."""
        key = f"{names.node_key(self.run_id, attempt, node)}/{names.rank_log(rank)}"
        self.append(key, data)
        return key

    def setup_log(self, data: bytes, *, node: int = 0, attempt: int = 1) -> str:
        key = f"{names.node_key(self.run_id, attempt, node)}/{names.SETUP_LOG}"
        self.append(key, data)
        return key

    def event(self, event: str, at: float, *, node: int = 0, attempt: int = 1) -> None:
        line = json.dumps({"at": at, "event": event}).encode() + b"\n"
        self.append(f"{names.node_key(self.run_id, attempt, node)}/{names.EVENTS}", line)

    def exit(self, state: str, *, node: int = 0, attempt: int = 1, **facts: Any) -> None:
        """An exit record; the node ran from T0 + 1 to T0 + 5 by default."""
        record = {
            "node": node,
            "state": state,
            "reason": None,
            "detail": None,
            "exit_code": 0 if state == "succeeded" else None,
            "signal": None,
            "first_failure": None,
            "started_at": T0 + 1,
            "ended_at": T0 + 5,
            "elapsed_s": 4.5,
            "ranks": [],
            **facts,
        }
        self.store.put(
            f"{names.node_key(self.run_id, attempt, node)}/{names.EXIT}", json.dumps(record).encode()
        )

    def heartbeat(self, at: float, gpus: list[dict[str, Any]], *, node: int = 0, attempt: int = 1) -> None:
        key = f"{names.node_key(self.run_id, attempt, node)}/{names.HEARTBEAT}"
        self.store.put(key, json.dumps({"at": at, "gpus": gpus, "rss_mib": 512}).encode())

    def output(self, name: str, data: bytes) -> None:
        self.store.put(f"{names.outputs_key(self.run_id)}/{name}", data)

    def end(self, state: str, *, run_id: str | None = None, row: int | None = None, **facts: Any) -> None:
        """A line of ends.jsonl in this folder, for this run or for a row of this group."""
        line: dict[str, Any] = {"id": run_id or self.run_id, "row": row, "state": state}
        line |= {"reason": None, "detail": None}
        line |= {"exit_code": None, "started_at": None, "ended_at": None, "elapsed_s": None, "attempts": []}
        self.append(names.ends_key(self.run_id), json.dumps({**line, **facts}).encode() + b"\n")

    def append(self, key: str, data: bytes) -> None:
        assert isinstance(self.store, Appends)
        self.store.append(key, data)


def attempt(number: int, state: str, **facts: Any) -> dict[str, Any]:
    """One attempt as the queue writes it in ends.jsonl."""
    whole = {"number": number, "state": state, "reason": None, "detail": None, "exit_code": None}
    return {**whole, "started_at": T0 + number, "ended_at": T0 + number + 4, "gpus": [], **facts}


def failure(rank: int, at: float, **facts: Any) -> dict[str, Any]:
    """The `first_failure` of an exit record."""
    return {"rank": rank, "exit_code": 1, "signal": None, "at": at, "tail": [f"rank {rank} broke"], **facts}
