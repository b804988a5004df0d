"""The simulator put together: its parts, and the way of a request through them."""

from __future__ import annotations

import secrets
import socket
import ssl
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from simulators.azure import tenants, versions
from simulators.azure.admin import Admin
from simulators.azure.aks.api_server import ApiServer
from simulators.azure.aks.clusters import ManagedClusters
from simulators.azure.aks.operations import Operations
from simulators.azure.aks.resource_groups import ResourceGroups
from simulators.azure.assets import Assets
from simulators.azure.attempt import Habits, SimulatedAttemptContext
from simulators.azure.certificates import Certificates
from simulators.azure.clock import Clock
from simulators.azure.cloud import SimulatedCloud
from simulators.azure.compute_routes import ComputeRoutes
from simulators.azure.documents import Documents
from simulators.azure.faults import Faults
from simulators.azure.history import History
from simulators.azure.identity import LoginService
from simulators.azure.job_routes import JobRoutes
from simulators.azure.jobs import JobTable
from simulators.azure.messages import Refused, SimulatedRequest, SimulatedResponse
from simulators.azure.node_processes import end_all
from simulators.azure.request_log import RequestLog
from simulators.azure.resources import add_default_resources
from simulators.azure.routes import Route, Routes
from simulators.azure.scheduler import Scheduler
from simulators.azure.server import SimulatorServer
from simulators.azure.storage import Storage, trusting
from simulators.azure.tokens import ARM_AUDIENCES, Tokens
from simulators.azure.websocket import bridge


@dataclass(frozen=True)
class SimulatorOptions:
    """How a simulator is started. Port 0 takes any."""

    folder: Path
    blobs: str
    accounts: dict[str, str]
    certificates: Certificates
    port: int = 0
    page: int = 100
    habits: Habits = field(default_factory=Habits)


class Simulator:
    """Serves from `start` to the end of the process."""

    def __init__(self, options: SimulatorOptions) -> None:
        self.clock, self.faults, self.request_log = Clock(), Faults(), RequestLog()
        self.tokens = Tokens(self.clock)
        self.admin_token = _word(options.folder / "admin.token")
        self._server = SimulatorServer(self, options.port, _context(options.certificates))
        # Nodes ask for their identity over plain HTTP, as they do on the service.
        self._plain = _plain_server(self, options.folder / "plain-port")
        self.base, self.plain = self._server.base, self._plain.base
        setting = self._setting(options)
        self.jobs = setting.jobs
        self._documents = setting.documents
        self._secret, self._gate = setting.identity_secret, setting.gate
        self.scheduler = Scheduler(setting)
        self._operations = Operations(setting.documents, self.clock)
        self._routes = Routes(self._table(setting, options.page, options.blobs))
        self._audiences = {self.base, *ARM_AUDIENCES}

    def _setting(self, options: SimulatorOptions) -> SimulatedAttemptContext:
        authority = str(options.certificates.authority)
        storage = Storage(
            options.blobs, options.accounts, authority, self.tokens, self.clock, trusting(authority)
        )
        documents = Documents(options.folder / "state.db")
        add_default_resources(documents, storage, self.clock.now())
        jobs = JobTable(documents, self.clock)
        jobs.base = self.base
        secret = _word(options.folder / "node.token")
        return SimulatedAttemptContext(
            options.folder, documents, storage, jobs, options.habits, self.plain, secret
        )

    def _table(self, setting: SimulatedAttemptContext, page: int, blobs: str) -> list[Route]:
        documents, storage = setting.documents, setting.storage
        identity = LoginService(self.tokens, setting.identity_secret)
        assets = Assets(documents, storage, self.clock)
        for workspace in documents.all("workspace"):
            assets.add_default_resources(workspace["id"])
        jobs = JobRoutes(self.jobs, documents, self.scheduler, self.clock, page)
        groups = ResourceGroups(documents, self._operations)
        api_server = ApiServer(documents, self.tokens, self.clock)
        authority = setting.storage.authority
        clusters = ManagedClusters(documents, self._operations, groups, api_server, Path(authority))
        turned = (self.tokens, self.faults, self.request_log, self.clock, clusters, self.admin_token)
        parts = [
            identity.routes(),
            SimulatedCloud(documents, blobs).routes(),
            jobs.routes(),
            ComputeRoutes(documents, self.jobs).routes(),
            assets.routes(),
            History(self.jobs, documents, storage, jobs.find, page).routes(),
            groups.routes(),
            clusters.routes(),
            api_server.routes(),
            self._operations.routes(),
            Admin(setting, self.scheduler, assets, identity, *turned).routes(),
        ]
        return [route for part in parts for route in part]

    def start(self) -> None:
        self.scheduler.start()
        self._operations.start()
        self._server.start()
        self._plain.start()

    def stop(self) -> None:
        """Jobs that run lose their processes at once, and the shells that were opened beside them.

        What they were doing stays written as it was, so that the next simulator takes them up.
        """
        self.scheduler.stop()
        self._operations.stop()
        self._gate.shut()
        end_all(self._secret)

    def answer(self, request: SimulatedRequest) -> SimulatedResponse:
        """Never raises."""
        headers = {"x-ms-request-id": str(uuid.uuid4())}
        try:
            route = self._routes.find(request)
            if route is None:
                self.faults.count(request.method, "unknown")
                raise Refused(404, "InvalidResourceType", f"Nothing answers {request.method} {request.path}.")
            self.faults.count(request.method, route.path)
            self.request_log.keep(request, route.path)
            versions.check(route.path, request.query.get("api-version"))
            if not route.open:
                claims = self.tokens.check(request.headers.get("authorization"), self._audiences)
                tenants.check(self._documents, request.path, claims)
            answer = route.handler(request)
        except Refused as refused:
            answer = refused.answer
        except Exception:
            traceback.print_exc()
            answer = Refused(
                500, "InternalServerError", "The simulator itself failed; its log says how."
            ).answer
        answer.headers = {**headers, **answer.headers}
        return answer

    def upgrade(self, request: SimulatedRequest) -> Callable[[socket.socket], None] | None:
        """The way to a job's shell, for who shows a token; None is answered as any other request."""
        name, _, node = request.path.removeprefix("/nodes/ssh/").partition("/")
        job = self.jobs.named(name)
        port = job.shells.get(node) if job else None
        if port is None:
            return None
        try:
            self.tokens.check(request.headers.get("authorization"), self._audiences)
        except Refused:
            return None
        key = request.headers.get("sec-websocket-key", "")
        return lambda line: bridge(line, key, port)


def _plain_server(app: Simulator, remembered: Path) -> SimulatorServer:
    """On the port it had before, if that is free: nodes that still run know it."""
    try:
        server = SimulatorServer(app, int(remembered.read_text()), None)
    except (OSError, ValueError):
        server = SimulatorServer(app, 0, None)
    remembered.write_text(server.base.rsplit(":", 1)[1])
    return server


def _context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.chain, certificates.key)
    return context


def _word(path: Path) -> str:
    """A secret of this simulator's own, the same after a restart."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(16))
    return path.read_text().strip()
