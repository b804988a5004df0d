"""Long operations: a change is accepted at once and takes effect later; the client reads its state.

An operation goes on when the simulator was ended and started again. What it does at its end is a function
that the owner of the resource registered under the kind of the operation.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

from simulators.azure.clock import Clock, stamp
from simulators.azure.documents import Documents
from simulators.azure.messages import Json, Refused, SimulatedRequest, SimulatedResponse
from simulators.azure.routes import SUBSCRIPTION, Route

_KIND = "operation"
_SECONDS = {
    "create-cluster": 1.0,
    "delete-cluster": 1.0,
    "update-cluster": 0.5,
    "create-pool": 0.5,
    "update-pool": 0.5,
    "delete-pool": 0.5,
    "delete-group": 0.5,
}
_STEP_S = 0.05
_HOOK_TIMEOUT_S = 300.0
_VERSION = "2016-03-30"
PROVIDER = "Microsoft.ContainerService"


class Failure(NamedTuple):
    """How an operation failed."""

    code: str
    message: str


class Hook(NamedTuple):
    """A program that makes the nodes of a pool real: its words, then CLUSTER, POOL and COUNT.

    The operation ends when the program has ended, and fails when it fails.
    """

    argv: tuple[str, ...]

    def run(self, cluster: str, pool: str, count: int) -> Failure | None:
        words = [*self.argv, cluster, pool, str(count)]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=_HOOK_TIMEOUT_S, check=False, env=os.environ
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Failure("HookFailed", str(error))
        lines = (done.stderr or done.stdout).strip().splitlines()
        return Failure("HookFailed", lines[-1] if lines else "") if done.returncode else None


# What an operation does at its end; it may fail even then.
Effect = Callable[[str], Failure | None]
# What is done to the resource when an operation has failed.
Failed = Callable[[str, Failure], None]


class Operations:
    """All operations. Any thread. `effects` are by kind, and get the path of the resource."""

    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self.effects: dict[str, tuple[Effect, Failed]] = {}
        self.seconds = dict(_SECONDS)
        self.retry_after = "1"
        # Failures that the next operations of a kind meet.
        self.failures: dict[str, list[Failure]] = {}

    def routes(self) -> list[Route]:
        path = SUBSCRIPTION + f"/providers/{PROVIDER}/locations/{{location}}/operations/{{operation}}"
        group = SUBSCRIPTION + "/operationresults/{operation}"
        return [Route("GET", path, self._state), Route("GET", group, self._result)]

    def start(self) -> None:
        """Take up the operations that an earlier simulator left."""
        for operation in self._documents.all(_KIND):
            if operation["status"] == "InProgress":
                self._follow(operation)

    def stop(self) -> None:
        self._stopped.set()

    def begin(self, kind: str, resource: str, location: str) -> Json:
        """A new operation on the resource at this path."""
        now = self._clock.now()
        with self._lock:
            failures = self.failures.get(kind) or []
            failure = failures.pop(0) if failures else None
        operation: Json = {
            "name": str(uuid.uuid4()),
            "kind": kind,
            "resource": resource,
            "location": location,
            "status": "InProgress",
            "startTime": stamp(now),
            "ends_at": now + self.seconds[kind],
            "failure": list(failure) if failure else None,
        }
        self._documents.put(_KIND, operation["name"], operation)
        self._follow(operation)
        return operation

    def is_busy(self, resource: str) -> bool:
        """Whether an operation on the resource, or on one below it, is in progress."""
        path = resource.lower()
        return any(
            one["status"] == "InProgress" and f"{one['resource'].lower()}/".startswith(f"{path}/")
            for one in self._documents.all(_KIND)
        )

    def abort(self, resource: str) -> None:
        """End the operations on the resource, and on those below it, as cancelled."""
        for one in self._documents.all(_KIND):
            if one["status"] == "InProgress" and one["resource"].lower().startswith(resource.lower()):
                self._end(one, "Canceled", Failure("OperationCanceled", "The operation was aborted."))

    def headers(self, request: SimulatedRequest, operation: Json) -> dict[str, str]:
        """What an answer says of the operation that it began."""
        sub = operation["resource"].split("/")[2]
        place = f"providers/{PROVIDER}/locations/{operation['location']}/operations/{operation['name']}"
        url = f"{request.base}/subscriptions/{sub}/{place}?api-version={_VERSION}"
        return {"Azure-AsyncOperation": url, "Location": url, "Retry-After": self.retry_after}

    def _follow(self, operation: Json) -> None:
        threading.Thread(target=self._work, args=(operation,), daemon=True).start()

    def _work(self, operation: Json) -> None:
        while self._clock.now() < operation["ends_at"]:
            if self._stopped.wait(_STEP_S):
                return
        if operation["status"] != "InProgress":
            return
        failure = Failure(*operation["failure"]) if operation["failure"] else None
        if failure is None:
            failure = self.effects[operation["kind"]][0](operation["resource"])
        if not self._stopped.is_set():
            self._end(operation, "Failed" if failure else "Succeeded", failure)

    def _end(self, operation: Json, status: str, failure: Failure | None) -> None:
        if failure:
            self.effects[operation["kind"]][1](operation["resource"], failure)
        operation |= {"status": status, "endTime": stamp(time.time())}
        if failure:
            operation["error"] = {"code": failure.code, "message": failure.message}
        self._documents.put(_KIND, operation["name"], operation)

    def _find(self, request: SimulatedRequest) -> Json:
        found = self._documents.get(_KIND, request.parts["operation"])
        if found is None:
            raise Refused(404, "NotFound", f"The operation '{request.parts['operation']}' was not found.")
        return found

    def _state(self, request: SimulatedRequest) -> SimulatedResponse:
        operation = self._find(request)
        shown = {name: operation[name] for name in _SHOWN if name in operation}
        headers = {"Retry-After": self.retry_after} if operation["status"] == "InProgress" else {}
        return SimulatedResponse(body=shown, headers=headers)

    def _result(self, request: SimulatedRequest) -> SimulatedResponse:
        """As Resource Manager answers for its own: 202 while it works, 200 after."""
        operation = self._find(request)
        if operation["status"] != "InProgress":
            return SimulatedResponse(200)
        url = f"{request.base}{request.path}?api-version={request.query['api-version']}"
        return SimulatedResponse(202, headers={"Location": url, "Retry-After": self.retry_after})


_SHOWN = ("name", "status", "startTime", "endTime", "error")
