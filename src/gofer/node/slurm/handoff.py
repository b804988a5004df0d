"""The handoff folder of one run or array, on the file system that login nodes and compute nodes share.

<folder>/slurm/<id>/job.sh, request.json, private.json (0600)
<folder>/slurm/<id>/sending, job, rejected     the progress of its submission
<folder>/slurm/<id>/claim                      the job that may run it
<folder>/slurm/<id>/cancel, cancel-<row>       requests to stop
<folder>/slurm/<id>/told/…                     messages of its nodes, see `publish`
"""

from __future__ import annotations

import os
from typing import Any, Optional, TypedDict, cast

from gofer.core import files, node_request
from gofer.core.node_request import NodeRequest
from gofer.core.states import State

SCRIPT = "job.sh"
REQUEST = "request.json"
PRIVATE = "private.json"
SENDING = "sending"
JOB = "job"
REJECTED = "rejected"
CLAIM = "claim"
LOCK = "lock"


def path_of(folder: str, request_id: str) -> str:
    return os.path.join(os.path.expanduser(folder), "slurm", request_id)


def every(rows: list[int] | None) -> list[int | None]:
    """The rows; [None] for a run that is not an array, and for an array as a whole."""
    return [None] if rows is None else list(rows)


class StopFields(TypedDict):
    """A request to stop. Without a grace, the grace of the job counts."""

    grace_s: Optional[float]


class Handoff:
    """One handoff folder. Every file is replaced in one step, so readers never see half of it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def at(self, name: str) -> str:
        return os.path.join(self.path, name)

    def has(self, name: str) -> bool:
        return os.path.exists(self.at(name))

    def write(self, name: str, data: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
        files.write_whole(self.at(name), data, mode=mode, durable=durable)

    def read_text(self, name: str) -> str | None:
        """The text of a file; None when it is absent."""
        try:
            with open(self.at(name), encoding="utf-8") as file:
                return file.read().strip()
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        files.remove(self.at(name))

    def request(self) -> NodeRequest:
        found = files.read_json(self.at(REQUEST))
        if found is None:
            raise ValueError(f"there is no request in {self.path}")
        return node_request.decode(found)

    # -- one job runs it

    def claim(self, job: str) -> bool:
        """Whether this job may run it: the first job that claims it may. Idempotent.

        When the answer of `sbatch` was lost, a run can have two jobs. The second one starts nothing.
        """
        mine = self.at(f"{CLAIM}.{job}.{os.uname().nodename}.{os.getpid()}")
        with open(mine, "w") as file:
            file.write(job)
        try:
            os.link(mine, self.at(CLAIM))
        except FileExistsError:
            pass
        finally:
            files.remove(mine)
        return self.read_text(CLAIM) == job

    # -- requests to stop

    def ask_to_stop(self, row: int | None, grace_s: float | None) -> None:
        self.write(_cancel(row), files.encode({"grace_s": grace_s}))

    def stop_order(self, row: int | None) -> StopFields | None:
        """The request to stop the row or the whole array; None when there is none."""
        own = None if row is None else files.read_json(self.at(_cancel(row)))
        return cast("StopFields | None", own or files.read_json(self.at(_cancel(None))))

    # -- messages of nodes

    def publish(self, row: int | None, attempt: int, what: str, value: object) -> None:
        """Write a message about an attempt: `begun`, `failed`, `ready-<node>` or `exit-<node>`."""
        os.makedirs(self.at("told"), exist_ok=True)
        self.write(os.path.join("told", _message_name(row, attempt, what)), files.encode(value))

    def read(self, row: int | None, attempt: int, what: str) -> dict[str, Any] | None:
        return files.read_json(self.at(os.path.join("told", _message_name(row, attempt, what))))

    def has_succeeded(self, row: int | None, attempt: int, nodes: int) -> bool:
        """Whether every node of the attempt reported success."""
        records = [self.read(row, attempt, f"exit-{node}") for node in range(nodes)]
        return all(record is not None and record["state"] == State.SUCCEEDED for record in records)

    def end_row(self, row: int | None, rows: int) -> None:
        """Mark a run as ended. After the last row of an array, remove the private values."""
        if row is not None:
            os.makedirs(self.at("told"), exist_ok=True)
            self.write(os.path.join("told", f"over.{row}"), b"{}")
            if sum(name.startswith("over.") for name in self._messages()) < rows:
                return
        self.close()

    def close(self) -> None:
        """Remove what only the jobs needed. No job may be running. Idempotent."""
        self.remove(PRIVATE)
        for name in self._messages():
            self.remove(os.path.join("told", name))

    def _messages(self) -> list[str]:
        try:
            return os.listdir(self.at("told"))
        except FileNotFoundError:
            return []


def _cancel(row: int | None) -> str:
    return "cancel" if row is None else f"cancel-{row}"


def _message_name(row: int | None, attempt: int, what: str) -> str:
    return f"{'run' if row is None else row}.{attempt}.{what}"
