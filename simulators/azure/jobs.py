"""Jobs as the workspace keeps them: the request, the state, and the JSON for clients."""

from __future__ import annotations

import getpass
import json
import threading
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from simulators.azure.clock import Clock, stamp
from simulators.azure.documents import Documents
from simulators.azure.messages import Json
from simulators.azure.resources import PROVIDER

ENDED = ("Completed", "Failed", "Canceled")
ACTIVE = ("Preparing", "Running", "Finalizing", "CancelRequested")
# What the service fills in, and a client that sends a job back need not repeat.
MUTABLE = ("displayName", "description", "tags", "properties", "isArchived")
_TAG_WORDS = {"Completed": "succeeded", "CancelRequested": "killing", "Canceled": "killed"}
_GIVEN: Json = {
    "description": None,
    "displayName": None,
    "experimentName": "Default",
    "computeId": None,
    "componentId": None,
    "identity": None,
    "notificationSetting": None,
    "codeId": None,
    "environmentId": None,
    "environmentVariables": {},
    "distribution": None,
    "limits": None,
    "inputs": {},
    "queueSettings": None,
}


@dataclass
class SimulatedJob:
    """One job. Everything but `wish` is written down with each change."""

    id: str
    name: str
    workspace: str
    properties: Json
    created: float
    seq: int
    status: str = "NotStarted"
    started: float | None = None
    ended: float | None = None
    error: Json | None = None
    attempt: int = 0
    archived: bool = False
    # Names of the log files there are, under the job's folder of the artifact store.
    logs: list[str] = field(default_factory=list)
    history: list[list[Any]] = field(default_factory=list)
    services: Json = field(default_factory=dict)
    tags: Json = field(default_factory=dict)
    notes: Json = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    location: str = ""
    # Whether it is on an attached Kubernetes cluster, which tells its own state in a tag.
    kubernetes: bool = False
    # Where the shells listen that are open beside it, by node.
    shells: dict[str, int] = field(default_factory=dict)
    # Left by another tool: shown, but never run here.
    left: bool = False
    # What the service says of its status, when a test wants that to be wrong.
    said: str = ""
    created_by: str = "Dummy User"
    # The requested action: "", cancel, preempt, lose-node (which it outlives),
    # fail-node (which it does not), timeout.
    wish: str = ""
    pids: dict[str, int] = field(default_factory=dict)
    rendered: bytes | None = None

    def document(self) -> Json:
        kept = asdict(self)
        for name in ("wish", "rendered"):
            kept.pop(name)
        return kept

    @property
    def resources(self) -> Json:
        return self.properties.get("resources") or {}

    @property
    def folder(self) -> str:
        """Of its logs and artifacts, in the artifact store's container."""
        return f"ExperimentRun/dcid.{self.name}"

    @property
    def experiment(self) -> str:
        return str(self.properties.get("experimentName") or "Default")


_FIELDS = frozenset(one.name for one in fields(SimulatedJob))


class JobTable:
    """Every job. Any thread; `changed` is notified of each change, and its lock guards all jobs."""

    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self.changed = threading.Condition(threading.RLock())
        self.base = ""
        self._jobs: dict[str, SimulatedJob] = {}
        for kept in documents.all("job"):
            job = SimulatedJob(**{name: value for name, value in kept.items() if name in _FIELDS})
            self._jobs[job.id.lower()] = job
        self._seq = max((job.seq for job in self._jobs.values()), default=0)

    def next_seq(self) -> int:
        with self.changed:
            self._seq += 1
            return self._seq

    def add(self, job: SimulatedJob) -> None:
        with self.changed:
            self._jobs[job.id.lower()] = job
            job.history.append([job.status, self._clock.now()])
            self.save(job)

    def get(self, job_id: str) -> SimulatedJob | None:
        return self._jobs.get(job_id.lower())

    def named(self, name: str) -> SimulatedJob | None:
        """Whichever workspace it is in."""
        with self.changed:
            return next((job for job in self._jobs.values() if job.name == name), None)

    def remove(self, job: SimulatedJob) -> None:
        with self.changed:
            self._jobs.pop(job.id.lower(), None)
            self._documents.delete("job", job.id)
            self.changed.notify_all()

    def all(self, workspace: str = "") -> list[SimulatedJob]:
        """Oldest first."""
        with self.changed:
            jobs = list(self._jobs.values())
        return [job for job in jobs if not workspace or job.workspace.lower() == workspace.lower()]

    def become(self, job: SimulatedJob, status: str, *, error: Json | None = None) -> None:
        """The status, written down. One that has ended stays as it ended."""
        with self.changed:
            if job.status in ENDED:
                return
            job.status = status
            job.history.append([status, self._clock.now()])
            if job.kubernetes:
                job.tags["amlk8s status"] = _TAG_WORDS.get(status, status.lower())
            if error is not None:
                job.error = error
            if status == "Running" and job.started is None:
                job.started = self._clock.now()
            if status in ENDED:
                job.ended = self._clock.now()
                job.pids.clear()
            self.save(job)

    def tell_shells(self, job: SimulatedJob, user: str, ports: dict[int, int]) -> None:
        """Where the job's shells are to be reached, by node; none when they are closed."""
        with self.changed:
            job.shells = {str(node): port for node, port in ports.items()}
            for service in job.services.values():
                if service.get("jobServiceType") == "SSH":
                    is_told = self.shell_service(job, 0)
                    service |= {
                        **is_told,
                        "properties": {**(service.get("properties") or {}), **is_told["properties"]},
                    }
            if job.kubernetes and 0 in ports:
                job.tags["ssh"] = f"ssh://{user}@127.0.0.1:{ports[0]}"
            self.save(job)

    def shell_service(self, job: SimulatedJob, node: int) -> Json:
        """The state of the shell service on one node of a job.

        Nodes of the real service have a user `azureuser`; here it is the user of the simulator's process.
        """
        if str(node) not in job.shells:
            return {"status": "Stopped", "endpoint": None, "properties": {}}
        host = self.base.partition("://")[2]
        where = f"wss://{getpass.getuser()}@{host}/nodes/ssh/{job.name}/{node}"
        return {"status": "Running", "endpoint": where, "properties": {"ProxyEndpoint": where}}

    def save(self, job: SimulatedJob) -> None:
        with self.changed:
            job.rendered = None
            self._documents.put("job", job.id, job.document())
            self.changed.notify_all()

    def render(self, job: SimulatedJob) -> bytes:
        """The job as ARM shows it."""
        with self.changed:
            if job.rendered is None:
                job.rendered = json.dumps(self._resource(job), separators=(",", ":")).encode()
            return job.rendered

    def _resource(self, job: SimulatedJob) -> Json:
        given = job.properties
        properties = {**_GIVEN, **{key: value for key, value in given.items() if value is not None}}
        properties["status"] = job.said or job.status
        properties["isArchived"] = job.archived
        properties["tags"] = job.tags
        properties["properties"] = {**job.notes, **_times(job)}
        properties["displayName"] = given.get("displayName") or job.name
        properties["services"] = {**self._links(job), **job.services}
        uri = f"azureml://datastores/workspaceartifactstore/{job.folder}"
        default = {"description": None, "jobOutputType": "uri_folder", "uri": uri, "mode": "ReadWriteMount"}
        properties["outputs"] = {**(given.get("outputs") or {}), "default": default}
        properties.setdefault("resources", {"instanceCount": 1})
        who = {"createdBy": job.created_by, "createdByType": "User", "createdAt": stamp(job.created)}
        kind = f"{PROVIDER}/workspaces/jobs"
        return {"id": job.id, "name": job.name, "type": kind, "properties": properties, "systemData": who}

    def _links(self, job: SimulatedJob) -> Json:
        studio = f"https://ml.azure.com/runs/{job.name}?wsid={job.workspace}"
        tracking = f"{self.base.replace('https', 'azureml', 1)}/mlflow/v1.0{job.workspace}?"
        links = {"Tracking": tracking, "Studio": studio}
        return {
            name: {
                "jobServiceType": name,
                "port": None,
                "endpoint": link,
                "status": None,
                "errorMessage": None,
            }
            for name, link in links.items()
        }


def _times(job: SimulatedJob) -> Json:
    times: Json = {}
    if job.started is not None:
        times["StartTimeUtc"] = stamp(job.started)[:19].replace("T", " ")
    if job.ended is not None:
        times["EndTimeUtc"] = stamp(job.ended)[:19].replace("T", " ")
    return times
