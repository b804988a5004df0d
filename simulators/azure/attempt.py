"""One go at running a job: bring its data, start its processes, wait for them, give its outputs back."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from simulators.azure import node_processes
from simulators.azure.clock import duration_s, stamp
from simulators.azure.data import Data, DataError, Mounted
from simulators.azure.documents import Documents
from simulators.azure.jobs import JobTable, SimulatedJob
from simulators.azure.launch import Process, fill, log_names, processes, service_variables, side_logs
from simulators.azure.log_uploader import LogUploader
from simulators.azure.messages import Json
from simulators.azure.outcomes import error, judged, wished
from simulators.azure.read_only_inputs import command_line
from simulators.azure.shell import Shell, nodes_with_shells, open_shell
from simulators.azure.storage import Storage

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True)
class Habits:
    """How the service behaves: seconds to end after SIGTERM, and for the others to end after one failed."""

    grace_s: float = 30.0
    peer_grace_s: float = 10.0


@dataclass
class SimulatedAttemptContext:
    """What every attempt shares."""

    folder: Path
    documents: Documents
    storage: Storage
    jobs: JobTable
    habits: Habits
    # Address of the managed identity endpoint, and the word a node proves itself by.
    identity: str
    identity_secret: str
    gate: node_processes.Gate = field(default_factory=node_processes.Gate)


class SimulatedAttempt:
    """Runs in a thread of its own; leaves the job ended, Paused or Queued, or as it stands when stopped."""

    def __init__(self, setting: SimulatedAttemptContext, job: SimulatedJob) -> None:
        self._setting = setting
        self._jobs = setting.jobs
        self._job = job
        self._folder = setting.folder / "jobs" / job.name / f"attempt-{job.attempt}"
        who = str((job.properties.get("identity") or {}).get("clientId") or "compute-identity")
        self._data = Data(setting.documents, setting.storage, job, who)
        artifacts = setting.documents.get("datastore", f"{job.workspace}/datastores/workspaceartifactstore")
        assert artifacts is not None
        place = artifacts["properties"]
        container = setting.storage.own(place["accountName"], place["containerName"])
        self._shipping = LogUploader(self._jobs, job, container)
        self._lifecycle = self._folder / "lifecycler.log"
        self._old = "sim.old-logs" in job.notes
        self._started: list[node_processes.Started] = []
        self._shells: dict[int, Shell] = {}

    def run(self) -> None:
        """Never raises: what goes wrong is the job's failure."""
        self._shipping.start()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._run()
        except node_processes.Stopped:
            return
        except DataError as failure:
            self._note(str(failure))
            self._shipping.finish()
            self._end("Failed", error("UserError", str(failure), failure.code))
        except Exception as failure:
            traceback.print_exc()
            node_processes.end_processes(self._started)
            self._shipping.finish()
            self._end("Failed", error("ServiceError", str(failure), "InternalError"))
        finally:
            for one in self._data.read_only_inputs:
                one.open()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        job = self._job
        for name in side_logs(old=self._old):
            self._shipping.add(name, self._lifecycle)
        self._note(f"preparing {job.name}, attempt {job.attempt}")
        self._data.pull_image()
        outputs, mounted = self._data.open_outputs(self._folder / "outputs")
        inputs = []
        for node in range(len(job.nodes)):
            inputs.append(self._data.bring_inputs(self._node(node) / "inputs"))
            self._data.bring_code(self._node(node) / "wd")
        with self._jobs.changed:
            if not job.wish:
                self._jobs.become(job, "Running")
        if job.wish:
            self._settle(mounted)
            return
        plans = processes(job, addresses(len(job.nodes)), free_port())
        for plan in plans:
            self._start(plan, inputs[plan.node], outputs, len(plans))
        self._open_shells()
        self._watch(self._started)
        self._settle(mounted)

    def _node(self, node: int) -> Path:
        return self._folder / f"node-{node}"

    def _start(self, plan: Process, inputs: dict[str, str], outputs: dict[str, str], count: int) -> None:
        job, node = self._job, self._node(plan.node)
        for folder in (node / "wd", node / "tmp", node / "home"):
            folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"std_log_{plan.rank}.txt"
        read_only_inputs = [one.path for one in self._data.read_only_inputs if node in one.path.parents]
        argv = command_line(fill(str(job.properties["command"]), inputs, outputs), read_only_inputs)
        env = {**self._environment(node, inputs, outputs), **plan.variables}
        names = log_names(plan.rank, count, old=self._old)
        with self._setting.gate.passage():
            child = node_processes.start(argv, env, node / "wd", path)
        self._started.append(node_processes.Started(plan, child, names[0], node_processes.marks(env)))
        for name in names:
            self._shipping.add(name, path)
        self._note(f"process {plan.rank} on node {plan.node} started as {child.pid}")
        with self._jobs.changed:
            job.pids[str(plan.rank)] = child.pid
            self._jobs.save(job)

    def _environment(self, node: Path, inputs: dict[str, str], outputs: dict[str, str]) -> dict[str, str]:
        setting = self._setting
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        env |= {"HOME": str(node / "home"), "TMPDIR": str(node / "tmp"), "USER": getpass.getuser()}
        env |= dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), setting.storage.authority)
        env |= service_variables(self._job, setting.identity, setting.identity_secret)
        env |= {f"AZURE_ML_INPUT_{name}": value for name, value in inputs.items()}
        env |= {f"AZURE_ML_OUTPUT_{name}": value for name, value in outputs.items()}
        given = self._job.properties.get("environmentVariables") or {}
        return {**env, **{name: str(value) for name, value in given.items()}}

    def _open_shells(self) -> None:
        firsts = {one.process.node: one.marks for one in reversed(self._started)}
        for node in nodes_with_shells(self._job):
            place, gate = self._folder / f"ssh-{node}", self._setting.gate
            shell = open_shell(self._job, place, free_port(), firsts[node], gate)
            if shell:
                self._shells[node] = shell
        if self._shells:
            ports = {node: shell.port for node, shell in self._shells.items()}
            self._jobs.tell_shells(self._job, getpass.getuser(), ports)

    def _watch(self, started: list[node_processes.Started]) -> None:
        job, habits = self._job, self._setting.habits
        limit = (job.properties.get("limits") or {}).get("timeout")
        deadline = time.monotonic() + duration_s(str(limit)) if limit else None

        def is_told() -> bool:
            if deadline is not None and time.monotonic() > deadline:
                job.wish = job.wish or "timeout"
            return bool(job.wish)

        if not node_processes.watch(started, habits.peer_grace_s, is_told):
            self._note(f"ending the processes: {job.wish or 'another process failed'}")
            node_processes.stop(started, habits.grace_s, hard=job.wish in ("fail-node", "lose-node"))

    def _settle(self, mounted: list[Mounted]) -> None:
        """What the ends of the processes and the wish of the service make of the job.

        Stopped when they may have ended with the simulator, which says nothing of the job.
        """
        job = self._job
        for shell in self._shells.values():
            shell.close()
        if self._shells:
            self._jobs.tell_shells(job, "", {})
        codes = node_processes.end_processes(self._started)
        with self._setting.gate.passage():
            wish = job.wish
        if not wish:
            self._jobs.become(job, "Finalizing")
        self._note(f"ended: {codes} {wish}".rstrip())
        try:
            self._data.give_back(mounted)
        except DataError:
            if not wish:
                raise
        if not wish and not any(codes):
            self._data.check_inputs()
        self._shipping.finish()
        if wish in ("preempt", "lose-node"):
            self._pause()
        elif wish:
            self._end(*wished(wish, str((job.properties.get("limits") or {}).get("timeout"))))
        else:
            self._end(*judged(self._started))

    def _pause(self) -> None:
        with self._jobs.changed:
            job = self._job
            if job.status == "CancelRequested":
                self._end("Canceled")
                return
            job.wish, job.nodes = "", []
            job.pids.clear()
            cluster = "/virtualclusters/" in str(job.properties.get("computeId") or "").lower()
            self._jobs.become(job, "Paused" if cluster else "Queued")

    def _end(self, status: str, failure: Json | None = None) -> None:
        with self._jobs.changed:
            self._job.wish = ""
            self._jobs.become(self._job, status, error=failure)

    def _note(self, text: str) -> None:
        with open(self._lifecycle, "a") as stream:
            stream.write(f"{stamp(time.time())} {text}\n")


def addresses(nodes: int) -> list[str]:
    """Each node its own address of loopback."""
    return [f"127.0.0.{index + 1}" for index in range(nodes)]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def run_attempt(setting: SimulatedAttemptContext, job: SimulatedJob) -> None:
    """Starts the thread."""
    threading.Thread(target=SimulatedAttempt(setting, job).run, daemon=True).start()
