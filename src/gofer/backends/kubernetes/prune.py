"""What runs leave in a namespace: Secrets whose Job is gone, and agents of other versions of gofer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gofer.backends.base import Prunable, PruneBounds
from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.backends.kubernetes.state.job_facts import moment
from gofer.transport.bundle import mark

SECRET = "secret"
AGENT = "agent"
_UNUSED = "of another version of gofer and not needed by any run; gofer sends it again when needed"


class KubernetesPlace:
    """The namespace of a target: the objects that gofer made there."""

    def __init__(self, connection: KubernetesConnection) -> None:
        self._connection = connection

    @property
    def name(self) -> str:
        return f"kubernetes {self._connection.site}"

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        jobs = {str(job["metadata"]["name"]): job for job in self._list(names.jobs_path(self._namespace))}
        return [*self._secrets(bounds, set(jobs)), *self._agents(bounds, jobs.values())]

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        """Remove these. Each is looked for again: runs may have been submitted since."""
        free = {(item.kind, item.name) for item in self.prunable(bounds)}
        gone = [item for item in doomed if (item.kind, item.name) in free]
        for item in gone:
            kind = "secrets" if item.kind == SECRET else "configmaps"
            self._connection.client.delete(names.core_path(self._namespace, kind, item.name))
        return gone

    @property
    def _namespace(self) -> str:
        return self._connection.namespace

    def _secrets(self, bounds: PruneBounds, jobs: set[str]) -> Iterator[Prunable]:
        for secret in self._list(names.core_path(self._namespace, "secrets")):
            name, at = secret["metadata"]["name"], _made_at(secret)
            # A submission creates its Secret before its Job.
            if name not in jobs and at < bounds.unused_since:
                yield Prunable(self.name, SECRET, name, _size(secret), at, "its Job is gone")

    def _agents(self, bounds: PruneBounds, jobs: Any) -> Iterator[Prunable]:
        used = {names.agent_name(mark())}
        for job in jobs:
            volumes = job["spec"]["template"]["spec"].get("volumes") or ()
            used.update(one["configMap"]["name"] for one in volumes if "configMap" in one)
        for agent in self._list(names.core_path(self._namespace, "configmaps")):
            name, at = agent["metadata"]["name"], _made_at(agent)
            if name not in used and at < bounds.unused_since:
                why = (
                    "of another version of gofer and not needed by any run; gofer sends it again when needed"
                )
                yield Prunable(self.name, AGENT, name, _size(agent), at, why)

    def _list(self, path: str) -> Iterator[dict[str, Any]]:
        return self._connection.client.list_all(path, names.OWN_JOBS)


def _made_at(found: dict[str, Any]) -> float:
    return moment(found["metadata"].get("creationTimestamp")) or 0.0


def _size(found: dict[str, Any]) -> int:
    """The bytes of the contents, which are in base64."""
    values = [*(found.get("data") or {}).values(), *(found.get("binaryData") or {}).values()]
    return sum(len(value) for value in values) * 3 // 4
