"""The side of the submitting machine: the options, the plan, and the files that say which programs run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from gofer.backends.base import Capabilities, Plan, RunRef
from gofer.backends.kind import BackendContext, Kind, check_reach
from gofer.backends.node_request import CommonRequest, common_fields
from gofer.backends.scheduled import KeepsSecretsHere, lay_out_on_nodes, recorded_ends
from gofer.core import files, processes
from gofer.core.secrets import run_secrets
from gofer.core.states import State
from gofer.model.ids import row_id
from gofer.model.job import Job
from gofer.model.layout import Layout
from gofer.model.run import Observation, RunRecord


class PlainOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    gpus_per_node: int = 0


def capabilities(options: PlainOptions) -> Capabilities:
    return Capabilities(has_ends_in_folder=True)


class PlainRequest(CommonRequest, frozen=True, kw_only=True):
    """The request of the nodes. Row i of an array has the values `rows[i]` of `columns`."""

    store: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class PlainPlan(msgspec.Struct, frozen=True, kw_only=True):
    record: RunRecord
    request: PlainRequest

    def run_ids(self) -> list[str]:
        rows = range(len(self.request.rows))
        return [row_id(self.record.id, row) for row in rows] if rows else [self.record.id]

    def render(self) -> str:
        return json.dumps(msgspec.to_builtins(self.request), indent=2)


class PlainBackend(KeepsSecretsHere):
    """Each run is a program of this machine, which starts the nodes of the run: see
    `throwaway_backend.program`.

    The folder `plain` of the queue home has a folder for each request: `request.json`, `<run>.program` with
    the process of each run, `<run>.stop` once somebody stops the run, and `log`.
    """

    kind = "plain"

    def __init__(self, options: PlainOptions, context: BackendContext) -> None:
        self.capabilities = capabilities(options)
        self._options = options
        self._target = context.target
        self._store = context.store_path or ""
        self._folder = os.path.join(context.queue_home, "plain")
        self._secrets_folder = self._folder

    def lay_out(self, job: Job) -> Layout:
        return lay_out_on_nodes(job, gpus_per_node=self._options.gpus_per_node, target=self._target)

    def plan(self, record: RunRecord, prepared: None) -> PlainPlan:
        array = record.array
        request = PlainRequest(
            **common_fields(record),
            store=self._store,
            columns=() if array is None else array.columns,
            rows=() if array is None else array.rows,
        )
        return PlainPlan(record=record, request=request)

    def submit(self, plan: Plan) -> None:
        made = cast(PlainPlan, plan)
        folder = os.path.join(self._folder, made.record.id)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        files.write_whole(os.path.join(folder, "request.json"), msgspec.json.encode(made.request))
        secrets = msgspec.json.encode(run_secrets.read(self._folder, made.record.id)._asdict())
        for run_id in made.run_ids():
            if not os.path.exists(os.path.join(folder, f"{run_id}.program")):
                self._start(folder, run_id, secrets)
        run_secrets.remove(self._folder, made.record.id)

    def _start(self, folder: str, run_id: str, secrets: bytes) -> None:
        argv = [sys.executable, "-m", "throwaway_backend.program", folder, run_id]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with open(os.path.join(folder, "log"), "ab") as log:
            subprocess.run(argv, input=secrets, stdout=log, stderr=log, env=environ, check=True, timeout=120)

    def observe(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        """A program that is gone has recorded the end of its run; if not, the files of its nodes decide."""
        found = recorded_ends(self._store, (run.id for run in runs))
        for run in runs:
            program = self._program(run.group or run.id, run.id)
            if program is not None and run.id not in found:
                state = State.RUNNING if processes.is_alive(program) else State.UNKNOWN
                found[run.id] = Observation(run_id=run.id, state=state)
        return found

    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        for run in runs:
            rows = [row_id(run.id, row) for row in range(run.size)] or [run.id]
            for run_id in rows:
                program = self._program(run.group or run.id, run_id)
                if program is not None:
                    stop = os.path.join(self._folder, run.group or run.id, f"{run_id}.stop")
                    files.write_whole(stop, json.dumps(grace_s).encode())
                    processes.send(program, signal.SIGTERM)

    def _program(self, request_id: str, run_id: str) -> processes.ProcessIdentity | None:
        """The process of a run, alive or not; None for a run that was not submitted."""
        try:
            with open(os.path.join(self._folder, request_id, f"{run_id}.program")) as file:
                pid, _, start = file.read().partition(":")
        except FileNotFoundError:
            return None
        return processes.ProcessIdentity(int(pid), int(start))


def make(options: PlainOptions, context: BackendContext) -> PlainBackend:
    check_reach(context)
    return PlainBackend(options, context)


KIND: Kind[Any] = Kind(PlainOptions, make, capabilities=capabilities)
