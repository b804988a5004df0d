"""What tests and demonstrations ask of the simulator itself: `/_sim/`, by the word in `DIR/admin.token`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from simulators.azure.aks.clusters import ManagedClusters
from simulators.azure.assets import Assets
from simulators.azure.attempt import SimulatedAttemptContext
from simulators.azure.clock import Clock
from simulators.azure.faults import Faults, read_fault
from simulators.azure.foreign_jobs import leave
from simulators.azure.identity import LoginService
from simulators.azure.jobs import ACTIVE, ENDED, SimulatedJob
from simulators.azure.messages import Json, Refused, SimulatedRequest, SimulatedResponse, not_found
from simulators.azure.request_log import RequestLog
from simulators.azure.resources import (
    WorkspaceSpec,
    add_compute,
    add_virtual_cluster,
    add_workspace,
    workspace_id,
)
from simulators.azure.routes import Route
from simulators.azure.scheduler import Scheduler
from simulators.azure.tokens import Tokens


@dataclass
class Admin:
    """Everything of the simulator that a test may turn."""

    setting: SimulatedAttemptContext
    scheduler: Scheduler
    assets: Assets
    identity: LoginService
    tokens: Tokens
    faults: Faults
    request_log: RequestLog
    clock: Clock
    clusters: ManagedClusters
    token: str

    def routes(self) -> list[Route]:
        table: dict[str, Callable[[SimulatedRequest], Json | None]] = {
            "POST /_sim/faults": self._add_fault,
            "DELETE /_sim/faults": lambda request: self.faults.clear(),
            "GET /_sim/counters": lambda request: self.faults.report(),
            "DELETE /_sim/counters": lambda request: self.faults.reset_counters(),
            "POST /_sim/request-log": lambda request: self.request_log.listen(),
            "GET /_sim/request-log": lambda request: self.request_log.report(),
            "POST /_sim/clock": self._set_clock,
            "POST /_sim/tokens/expire": lambda request: self.tokens.expire(),
            "POST /_sim/device/approve": self._approve,
            "POST /_sim/identity": self._set_identity,
            "POST /_sim/hold": self._hold,
            "POST /_sim/workspaces": self._workspace,
            "POST /_sim/computes": self._compute,
            "POST /_sim/containers": self._container,
            "POST /_sim/virtualclusters": self._cluster,
            "POST /_sim/aks": self.clusters.configure,
            "POST /_sim/jobs": self._add_jobs,
            "GET /_sim/jobs": self._jobs,
            "GET /_sim/jobs/{name}": self._job,
            "POST /_sim/jobs/{name}/preempt": self._preempt,
            "POST /_sim/jobs/{name}/resume": self._resume,
            "POST /_sim/jobs/{name}/fail-node": self._fail_node,
            "POST /_sim/jobs/{name}/become": self._become,
        }
        made = []
        for key, action in table.items():
            method, path = key.split()
            made.append(Route(method, path, self._guarded(action), open=True))
        return made

    def _guarded(
        self, action: Callable[[SimulatedRequest], Json | None]
    ) -> Callable[[SimulatedRequest], SimulatedResponse]:
        def answered(request: SimulatedRequest) -> SimulatedResponse:
            if request.headers.get("authorization") != f"Bearer {self.token}":
                raise Refused(
                    403, "NotAdmin", "The admin API needs the word in the simulator's file admin.token."
                )
            return SimulatedResponse(body=action(request) or {})

        return answered

    def _add_fault(self, request: SimulatedRequest) -> None:
        self.faults.add(read_fault(request.json()))

    def _set_clock(self, request: SimulatedRequest) -> None:
        body = request.json()
        self.clock.skew_s = float(body.get("skew_s", self.clock.skew_s))
        self.tokens.lifetime_s = float(body.get("token_lifetime_s", self.tokens.lifetime_s))

    def _approve(self, request: SimulatedRequest) -> Json:
        return {"approved": self.identity.approve(str(request.json().get("user_code", "")))}

    def _set_identity(self, request: SimulatedRequest) -> None:
        body = request.json()
        self.identity.hasty = bool(body.get("hasty", self.identity.hasty))
        self.identity.signed_out = bool(body.get("signed_out", self.identity.signed_out))
        self.identity.node_clients = set(body.get("node_clients", self.identity.node_clients))

    def _hold(self, request: SimulatedRequest) -> None:
        jobs = self.setting.jobs
        with jobs.changed:
            self.scheduler.held = bool(request.json().get("held", True))
            jobs.changed.notify_all()

    def _workspace(self, request: SimulatedRequest) -> Json:
        body = request.json()
        known = {name: str(body[name]) for name in WorkspaceSpec._fields if name in body}
        setting = self.setting
        at = add_workspace(setting.documents, setting.storage, WorkspaceSpec(**known), self.clock.now())
        self.assets.add_default_resources(at)
        for wanted in body.get("computes", []):
            add_compute(setting.documents, at, wanted)
        return {"id": at}

    def _compute(self, request: SimulatedRequest) -> Json:
        """Makes a compute, or changes the number of nodes of one: `nodes`, `unusable` (names)."""
        body = request.json()
        at = str(body.get("workspace") or workspace_id(*WorkspaceSpec()[:3]))
        jobs, documents = self.setting.jobs, self.setting.documents
        with jobs.changed:
            kept = documents.get("compute", f"{at}/computes/{body['name']}")
            if kept is None or "kind" in body or "vm_size" in body:
                kept = add_compute(documents, at, body)
            for name in ("nodes", "unusable", "gpus"):
                if name in body:
                    kept["sim"][name] = body[name]
            documents.put("compute", kept["id"], kept)
            jobs.changed.notify_all()
        return {"id": kept["id"]}

    def _container(self, request: SimulatedRequest) -> None:
        """A container of one of the storage accounts; one that exists stays."""
        body, storage = request.json(), self.setting.storage
        account = str(body.get("account") or next(iter(storage.accounts)))
        if account not in storage.accounts:
            raise not_found("storage account", account)
        storage.own(account, str(body["name"])).create()

    def _cluster(self, request: SimulatedRequest) -> Json:
        jobs = self.setting.jobs
        with jobs.changed:
            made = add_virtual_cluster(self.setting.documents, request.json())
            jobs.changed.notify_all()
        return {"id": made["id"]}

    def _find(self, request: SimulatedRequest) -> SimulatedJob:
        job = self.setting.jobs.named(request.parts["name"])
        if job is None:
            raise not_found("job", request.parts["name"])
        return job

    def _jobs(self, request: SimulatedRequest) -> Json:
        return {"value": [self._shown(job) for job in self.setting.jobs.all()]}

    def _job(self, request: SimulatedRequest) -> Json:
        return self._shown(self._find(request))

    def _shown(self, job: SimulatedJob) -> Json:
        with self.setting.jobs.changed:
            return job.document()

    def _preempt(self, request: SimulatedRequest) -> None:
        """Its processes get SIGTERM; on a virtual cluster the job is Paused until `resume` or `resume_s`."""
        job, seconds = self._find(request), request.json().get("resume_s")
        with self.setting.jobs.changed:
            if job.status not in ACTIVE:
                raise Refused(409, "NotRunning", f"The job '{job.name}' is {job.status}.")
            job.wish = job.wish or "preempt"
        if seconds is not None:
            timer = threading.Timer(float(seconds), self._wake, (job,))
            timer.daemon = True
            timer.start()

    def _wake(self, job: SimulatedJob) -> None:
        with self.setting.jobs.changed:
            if self.setting.jobs.changed.wait_for(
                lambda: job.status in ("Paused", "Queued", *ENDED), timeout=120
            ):
                self.setting.jobs.become(job, "Queued")

    def _resume(self, request: SimulatedRequest) -> None:
        job = self._find(request)
        with self.setting.jobs.changed:
            if job.status != "Paused":
                raise Refused(409, "NotPaused", f"The job '{job.name}' is {job.status}.")
            self.setting.jobs.become(job, "Queued")

    def _fail_node(self, request: SimulatedRequest) -> None:
        """The job's nodes die at once. With `restart` it is as after a preemption: the job runs again."""
        job, body = self._find(request), request.json()
        with self.setting.jobs.changed:
            if job.status not in ACTIVE:
                raise Refused(409, "NotRunning", f"The job '{job.name}' is {job.status}.")
            job.wish = "lose-node" if body.get("restart") else "fail-node"

    def _become(self, request: SimulatedRequest) -> None:
        """What the service says of a job, whatever is true: status ("" for the truth again), tags, error."""
        job, body = self._find(request), request.json()
        with self.setting.jobs.changed:
            job.tags = {**job.tags, **body.get("tags", {})}
            job.error = body.get("error", job.error)
            job.said = str(body.get("status", job.said))
            self.setting.jobs.save(job)

    def _add_jobs(self, request: SimulatedRequest) -> Json:
        """Jobs as another tool left them; one, or many under `jobs`."""
        body = request.json()
        added = [leave(self.setting, one, self.clock.now()) for one in body.get("jobs") or [body]]
        return {"ids": [job.id for job in added]}


def describe(base: str, plain: str, blobs: str, token: str) -> Json:
    """The contents of `sim.json`, for programs that start the simulator."""
    return {"base": base, "plain": plain, "blobs": blobs, "admin_token": token, "pid": os.getpid()}
