"""The service as the agent sees it, without its queue and its API: a room, variables, processes, for tests
that must tell one process of a job to end, kill it, or start it again at a moment of their own.

The variables are those that the simulator gives.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from services.azurite import Account
from services.process import free_port

from gofer.core import run_layout
from gofer.core.store_spec import StoreSpec
from gofer.objects import open_objects
from gofer.objects.base import ObjectService
from gofer.transport.bundle import bundle
from simulators.azure import launch
from simulators.azure.jobs import SimulatedJob as ServiceJob

ENDS_S = 180.0


class Ended(NamedTuple):
    """How one process of the service ended."""

    status: int
    out: str
    err: str


def request(command: Sequence[str], **more: Any) -> dict[str, Any]:
    """The node request of a run: the fields of gofer.backends.node_request and those of the backend."""
    layout = {"nodes": more.pop("nodes", 1), "procs_per_node": more.pop("procs", 1)}
    fields = {
        "id": "20260101-000000-" + uuid4().hex[:5],
        "target": "cloud",
        "snapshot": None,
        "workdir": ".",
        "folders": {},
        "command": list(command),
        "launcher": "spawn",
        "env": {},
        "setup": None,
        "tags": {},
        "sync": [],
        "layout": {**layout, "gpus_per_node": 0},
        "time_limit_s": None,
        "grace_s": 5.0,
        "retries": 0,
        "retry_on": ["exit-code", "signal", "preempted", "node-failure", "staging"],
        "store": None,
        "columns": [],
        "rows": [],
    }
    return {**fields, **more}


def _as_the_service_has_it(name: str, nodes: int) -> ServiceJob:
    """The simulator's own job, so that the variables of these tests are those of all others."""
    workspace = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"
    properties: dict[str, Any] = {"experimentName": "x", "resources": {"instanceCount": nodes}}
    if nodes > 1:
        properties["distribution"] = {"distributionType": "PyTorch", "processCountPerInstance": 1}
    return ServiceJob(f"{workspace}/jobs/{name}", name, workspace, properties, 0.0, 0)


class Job:
    """One job of the service: a room in the store and on each node's disk, and processes."""

    def __init__(
        self, place: Path, objects: ObjectService, told: dict[str, Any], private: dict[str, Any]
    ) -> None:
        self.objects = objects
        self.request = told
        self.id = str(told["id"])
        self._place = place
        self._nodes = int(told["layout"]["nodes"])
        self.environ: dict[str, str] = {}
        self.words: list[str] = []
        self.python = sys.executable
        self.started: list[subprocess.Popen[str]] = []
        self._port = free_port()
        self._told = _as_the_service_has_it(self.id, self._nodes)
        self.room = place / "room"
        self.room.mkdir(parents=True)
        for name, value in (("request.json", told), ("private.json", private)):
            data = json.dumps(value).encode()
            (self.room / name).write_bytes(data)
            objects.put(f"rooms/{self.id}/{name}", data)
        self.zip = place / "agent.zip"
        self.zip.write_bytes(bundle().data)

    # -- what the service does

    def start(self) -> None:
        """One process on each node, as a job without a distribution or with PyTorch's has it."""
        self.started = [self.start_node(node) for node in range(self._nodes)]

    def start_node(self, node: int) -> subprocess.Popen[str]:
        extra = launch.processes(self._told, ["127.0.0.1"] * self._nodes, self._port)[node].variables
        return self.spawn(node, [self.python, "-E", "-s", str(self.zip), str(self.room), *self.words], extra)

    def spawn(self, node: int, argv: Sequence[str], extra: Mapping[str, str]) -> subprocess.Popen[str]:
        """Each node has a folder for what is temporary, and a log that takes what its process prints."""
        own = self._place / f"node-{node}"
        own.mkdir(exist_ok=True)
        service = launch.service_variables(self._told, "http://127.0.0.1:9", "dummy-node-secret")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GOFER_")}
        environ = {**kept, **service, **extra, "TMPDIR": str(own), **self.environ}
        with open(own / "out", "w") as out, open(own / "err", "w") as err:
            return subprocess.Popen(
                argv,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=own,
                text=True,
                start_new_session=True,
            )

    def wait(self) -> list[Ended]:
        """All of them must end by themselves."""
        deadline = time.monotonic() + ENDS_S
        return [
            Ended(
                process.wait(max(deadline - time.monotonic(), 0.1)),
                self.output(node),
                self.output(node, "err"),
            )
            for node, process in enumerate(self.started)
        ]

    def run(self) -> list[Ended]:
        self.start()
        return self.wait()

    def terminate(self) -> None:
        for process in self.started:
            process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """As when a node is gone: nothing of the job is left on it."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    # -- what can be seen of it

    def output(self, node: int = 0, what: str = "out") -> str:
        return (self._place / f"node-{node}" / what).read_text()

    def key(self, name: str, run: str = "") -> str:
        return f"{run_layout.run_key(run or self.id)}/{name}"

    def read(self, name: str, run: str = "") -> str:
        """A file of the run's folder in the store."""
        return self.objects.get(self.key(name, run)).decode()

    def end(self, run: str = "") -> dict[str, Any]:
        (line,) = self.read("ends.jsonl", run).splitlines()
        found: dict[str, Any] = json.loads(line)
        return found

    def has(self, name: str, run: str = "") -> bool:
        return self.objects.head(self.key(name, run)) is not None

    def log(self, attempt: int = 1, rank: int = 0, node: int = 0, run: str = "") -> str:
        """A log as it is in the store, whole or in parts."""
        key = self.key(f"attempts/{attempt}/node-{node}/rank-{rank}.log", run)
        found = {info.key: info for info in self.objects.list_beginning(key)}
        parts = sorted(one for one in found if run_layout.parse_part(one))
        return "".join(self.objects.get(one).decode() for one in ([key] if key in found else parts))

    def exit_record(self, attempt: int = 1, node: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.read(f"attempts/{attempt}/node-{node}/exit.json"))
        return found

    def handoff_keys(self) -> list[str]:
        place = f"rooms/{self.id}/"
        return [info.key[len(place) :] for info in self.objects.list_beginning(place)]


class Service:
    """Jobs of one test, whose runs are in a container of their own."""

    def __init__(self, place: Path, account: Account, prefix: str = "pre") -> None:
        self._place = place
        self.account = account
        self.container = account.new_container()
        where: StoreSpec = {
            "kind": "azure",
            "endpoint": account.endpoint,
            "container": self.container,
            "prefix": prefix,
        }
        self.spec: StoreSpec = {**where, "sas": account.container_sas(self.container, "rwdlc")}
        opened = open_objects({**where, "account": account.name, "key": account.key})
        assert isinstance(opened, ObjectService)
        self.objects = opened
        self.jobs: list[Job] = []

    def job(self, command: Sequence[str], **more: Any) -> Job:
        """`environment`, `folders_spec` and `spec` are private; the other fields are not."""
        private = {
            "environment": more.pop("environment", {}),
            "store": more.pop("spec", self.spec),
            "folders": more.pop("folders_spec", {}),
        }
        fields = request(command, **more)
        job = Job(self._place / f"job-{len(self.jobs)}", self.objects, fields, private)
        self.jobs.append(job)
        return job

    def close(self) -> None:
        for job in self.jobs:
            job.kill()


def until(see: Callable[[], object], what: str, *, within_s: float = 120.0) -> None:
    """Wait for something to be seen; AssertionError when it is not in time."""
    deadline = time.monotonic() + within_s
    while not see():
        assert time.monotonic() < deadline, f"not seen within {within_s:.0f} s: {what}"
        time.sleep(0.05)
