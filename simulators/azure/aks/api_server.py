"""The API server of a simulated cluster, as far as `gofer cluster` and petctl ask it.

It knows neither nodes nor schedulers: for pods that really run, the simulator hands out the kubeconfig of a
real cluster.
"""

from __future__ import annotations

from simulators.azure.aks.kubeconfigs import AKS_SERVER_ID, DUMMY_TOKEN
from simulators.azure.clock import Clock, plain_stamp
from simulators.azure.documents import Documents
from simulators.azure.messages import Json, Refused, SimulatedRequest, SimulatedResponse
from simulators.azure.routes import Route
from simulators.azure.tokens import Tokens

_SERVER = "/kubernetes/{cluster}"
_DAEMON_SETS = _SERVER + "/apis/apps/v1/namespaces/{namespace}/daemonsets"
_SECRETS = _SERVER + "/api/v1/namespaces/{namespace}/secrets"


class ApiServer:
    """One for all clusters, told apart by the first part of the path."""

    def __init__(self, documents: Documents, tokens: Tokens, clock: Clock) -> None:
        self._documents = documents
        self._tokens = tokens
        self._clock = clock

    def routes(self) -> list[Route]:
        return [
            Route("POST", _DAEMON_SETS, self._create, open=True),
            Route("GET", _DAEMON_SETS, self._daemon_sets, open=True),
            Route("POST", _SECRETS, self._create, open=True),
            Route("GET", _SECRETS, self._secrets, open=True),
            Route("PATCH", _SECRETS + "/{name}", self._change_secret, open=True),
            Route("GET", _SERVER + "/api/v1/pods", self._pods, open=True),
        ]

    def add_pods(self, cluster: str, names: list[str]) -> None:
        """Pods that run, each `NAMESPACE/NAME`."""
        for name in names:
            namespace, _, short = name.partition("/")
            facts = {"creationTimestamp": plain_stamp(self._clock.now()), "labels": {}}
            pod = {
                "metadata": {"namespace": namespace, "name": short, **facts},
                "status": {"phase": "Running"},
            }
            self._documents.put("kubepod", f"{cluster}/{name}", pod)

    def _create(self, request: SimulatedRequest) -> SimulatedResponse:
        self._check(request)
        wanted = request.json()
        kind, name = str(wanted["kind"]).lower(), wanted["metadata"]["name"]
        key = f"{request.parts['cluster']}/{name}"
        if self._documents.get(kind, key):
            return SimulatedResponse(409, _status(409, "AlreadyExists", f'{kind} "{name}" already exists'))
        self._documents.put(kind, key, wanted)
        return SimulatedResponse(201, wanted)

    def _secrets(self, request: SimulatedRequest) -> SimulatedResponse:
        self._check(request)
        found = self._documents.all("secret", f"{request.parts['cluster']}/")
        return SimulatedResponse(body={"kind": "SecretList", "items": found})

    def _change_secret(self, request: SimulatedRequest) -> SimulatedResponse:
        self._check(request)
        key = f"{request.parts['cluster']}/{request.parts['name']}"
        found = self._documents.get("secret", key)
        if found is None:
            return SimulatedResponse(404, _status(404, "NotFound", f"secret {key} not found"))
        found |= request.json()
        self._documents.put("secret", key, found)
        return SimulatedResponse(body=found)

    def _daemon_sets(self, request: SimulatedRequest) -> SimulatedResponse:
        self._check(request)
        found = self._documents.all("daemonset", f"{request.parts['cluster']}/")
        return SimulatedResponse(body={"kind": "DaemonSetList", "items": found})

    def _pods(self, request: SimulatedRequest) -> SimulatedResponse:
        self._check(request)
        found = self._documents.all("kubepod", f"{request.parts['cluster']}/")
        return SimulatedResponse(body={"kind": "PodList", "items": found})

    def _check(self, request: SimulatedRequest) -> None:
        header = request.headers.get("authorization", "")
        if header == f"Bearer {DUMMY_TOKEN}":
            return
        try:
            self._tokens.check(header, {AKS_SERVER_ID})
        except Refused as refused:
            refused.answer.body = _status(401, "Unauthorized", "Unauthorized")
            raise


def _status(code: int, reason: str, message: str) -> Json:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
