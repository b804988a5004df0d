"""Waits for changes that Azure works on: by the URL of the operation, else by the state of the resource."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.errors import BackendError, Interrupted
from gofer.ops.clusters.cluster_notes import ClusterNotes, PendingOperation
from gofer.ops.messages import Message
from gofer.text import format_duration
from gofer.transport.azure.arm import OperationState
from gofer.transport.azure.managed_cluster import CLUSTERS_API, GROUPS_API, ClusterName, ClusterService

if TYPE_CHECKING:
    from gofer.ops.messages import AnyMessage
    from gofer.transport.azure.arm import AcceptedChange

DEFAULT_LIMIT_S = 3600.0
_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 30.0
_SAID_EVERY_S = 15.0
ENDS = ("Succeeded", "Failed", "Canceled")


class OperationWait(NamedTuple):
    """How a command waits. `limit_s` 0 means that it does not wait at all."""

    limit_s: float = DEFAULT_LIMIT_S
    emit: Callable[[AnyMessage], None] = lambda message: None


class LongOperations:
    """The operations on one cluster, remembered on this machine until each has ended."""

    def __init__(
        self, service: ClusterService, notes: ClusterNotes, cluster: ClusterName, waiting: OperationWait
    ) -> None:
        self._service = service
        self._notes = notes
        self._cluster = cluster
        self._waiting = waiting

    def begin(self, what: str, resource: str, change: Callable[[], AcceptedChange]) -> PendingOperation:
        """Send the change. It is remembered before it is sent, and again with its URL: an operation without a
        URL, of a client that was killed in between, is followed by the state of the resource.
        """
        before = PendingOperation(what, resource, "", time.time())
        self._notes.begin(self._cluster, before)
        try:
            accepted = change()
        except BackendError:
            if not self._is_in_progress(resource):
                self._notes.end(self._cluster, before)
            raise
        operation = PendingOperation(what, resource, accepted.operation, before.since)
        self._notes.begin(self._cluster, operation)
        return operation

    def wait(self, operation: PendingOperation) -> None:
        """Wait for the end. BackendError when Azure could not do it; Interrupted when the time is up, and the
        operation continues.
        """
        deadline = time.monotonic() + self._waiting.limit_s
        said = time.monotonic()
        while (state := self.state(operation)).status not in ENDS:
            now = time.monotonic()
            if now >= deadline:
                raise Interrupted(
                    f"Azure still works on it: {operation.what} `{_last(operation.resource)}`",
                    hint=f"`gofer cluster show --wait {self._cluster.name}` waits again",
                )
            if now - said >= _SAID_EVERY_S:
                said = now
                elapsed = format_duration(round(time.time() - operation.since))
                self._waiting.emit(Message(f"{operation.what} `{_last(operation.resource)}`: {elapsed}"))
            time.sleep(min(state.retry_after_s or _PAUSE_S, _LONGEST_PAUSE_S, max(0.0, deadline - now)))
        self._notes.end(self._cluster, operation)
        if state.status != "Succeeded":
            why = state.message or "Azure does not say why"
            code = f" ({state.code})" if state.code else ""
            raise BackendError(
                f"{operation.what} `{_last(operation.resource)}` ended as {state.status}: {why}{code}",
                hint=f"`gofer cluster show {self._cluster.name}` shows what is there; the same command tries "
                "again",
            )

    def wait_for_pending(self) -> None:
        """Wait for the operations on the cluster that this machine remembers."""
        note = self._notes.find(self._cluster)
        for operation in note.operations if note else ():
            self.wait(operation)

    def wait_until_idle(self) -> None:
        """Wait for the change that is in progress on the cluster or on one of its pools, whoever began it."""
        for resource in (self._cluster.id, *self._pools()):
            self.wait(PendingOperation("wait for", resource, "", time.time()))

    def state(self, operation: PendingOperation) -> OperationState:
        """Ask once. An operation on a resource that is gone has succeeded."""
        if operation.url:
            return self._service.arm.operation(operation.url)
        found = self._service.arm.find(operation.resource, _api_of(operation.resource))
        return OperationState("Succeeded") if found is None else _state_of(found)

    def _pools(self) -> list[str]:
        found = self._service.find(self._cluster) or {}
        profiles = (found.get("properties") or {}).get("agentPoolProfiles") or ()
        return [self._cluster.pool_id(str(one.get("name"))) for one in profiles]

    def _is_in_progress(self, resource: str) -> bool:
        try:
            found = self._service.arm.find(resource, _api_of(resource))
        except BackendError:
            return True  # nothing is known: the note stays
        return found is not None and _state_of(found).status not in ENDS


def _api_of(resource: str) -> str:
    return CLUSTERS_API if "/providers/" in resource else GROUPS_API


def provisioning_state(resource: dict[str, Any]) -> str:
    return str((resource.get("properties") or {}).get("provisioningState") or "")


def _state_of(resource: dict[str, Any]) -> OperationState:
    word = provisioning_state(resource)
    return OperationState(word if word in ENDS else "InProgress")


def _last(resource: str) -> str:
    return resource.rsplit("/", 1)[-1]
