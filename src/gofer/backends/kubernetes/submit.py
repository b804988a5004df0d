"""Sends a run to the cluster: the agent once for a namespace, then the Secret, the Job, and their connection.

Every step can be repeated: all objects have fixed names, and one that exists already was sent before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from gofer.backends.kubernetes import manifest, names
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.backends.kubernetes.plan import KubernetesPlan
from gofer.core.secrets.run_secrets import NOTHING, RunSecrets
from gofer.errors import BackendError, CheckFailed, GoferError
from gofer.node.kubernetes import places
from gofer.node.rendezvous.peer_messages import HANDOFFS
from gofer.objects import open_objects
from gofer.transport.bundle import bundle, mark
from gofer.transport.kubernetes.client import KubeApiError, WriteConflict

# A Secret holds 1 MiB at most, private values included.
_MOST_REQUEST = 600_000
# After this time the ConfigMap with the agent is looked for again: somebody may have removed it.
_AGENT_S = 12 * 3600.0


class KubernetesSubmitter:
    """The submissions of one target."""

    def __init__(self, connection: KubernetesConnection) -> None:
        self._connection = connection
        self._client = connection.client
        self._namespace = connection.namespace

    def send(self, plan: KubernetesPlan, private: RunSecrets) -> None:
        """Send the plan. Blocking; idempotent.

        CheckFailed when the cluster refuses it, BackendError when the run's secrets are gone or when another
        Job has its name.
        """
        run_id, notes = plan.record.id, self._connection.notes
        note = notes.read(run_id)
        if note is not None and note.is_sent and self._job(run_id) is not None:
            return
        if private == NOTHING or private.store is None:
            raise BackendError(
                f"{run_id} cannot be sent again: the credential for its store has been removed",
                hint=f"`gofer resubmit {run_id}`",
            )
        rows = plan.record.array.rows if plan.record.array is not None else ()
        notes.update(run_id, runs=len(rows) or 1)
        try:
            self._put_all(plan, private)
        except KubeApiError as error:
            if not 400 <= error.status < 500 or isinstance(error, WriteConflict):
                raise
            notes.update(run_id, rejected=str(error))
            self._remove_secret(run_id)
            raise self._refused(error) from error
        notes.update(run_id, is_sent=True)

    def _put_all(self, plan: KubernetesPlan, private: RunSecrets) -> None:
        self._put_agent()
        secrets = names.core_path(self._namespace, "secrets")
        self._create(secrets, lambda: manifest.secret(plan.record, self._files(plan, private)))
        job = self._put_job(plan)
        owner = manifest.owner(plan.record.id, str(job["metadata"]["uid"]))
        with suppress(KubeApiError):  # `prune` removes a Secret whose Job is gone
            self._client.patch(f"{secrets}/{plan.record.id}", owner)

    def _put_agent(self) -> None:
        """Create the ConfigMap with the agent unless this machine has seen it there in the last hours."""
        known, name = self._connection.known, mark()
        seen = known.get("agent", name)
        if seen is not None and time.time() - float(seen) < _AGENT_S:
            return
        maps = names.core_path(self._namespace, "configmaps")
        self._create(maps, lambda: manifest.agent_map(name, bundle().data))
        known.put("agent", name, time.time())

    def _create(self, path: str, make: Callable[[], dict[str, Any]]) -> None:
        try:
            self._client.create(path, make())
        except KubeApiError as error:
            if error.reason != "AlreadyExists":
                raise

    def _put_job(self, plan: KubernetesPlan) -> dict[str, Any]:
        """Create the Job, or find the one that an earlier call created. A lost answer is repaired by creating
        again: to look for the Job proves nothing while the first request may still arrive.
        """
        try:
            return self._client.create(names.jobs_path(self._namespace), plan.body)
        except KubeApiError as error:
            if error.reason != "AlreadyExists":
                raise
        found = self._job(plan.record.id)
        wanted = plan.body["metadata"]["annotations"][names.PLAN_NOTE]
        seen = {} if found is None else found["metadata"].get("annotations") or {}
        if found is None or seen.get(names.PLAN_NOTE) != wanted:
            raise BackendError(
                f"the namespace `{self._namespace}` has another Job with the name {plan.record.id}",
                hint=f"`kubectl -n {self._namespace} get job {plan.record.id} -o yaml` shows it",
            )
        return found

    def _job(self, run_id: str) -> dict[str, Any] | None:
        try:
            return self._client.get(names.jobs_path(self._namespace, run_id))
        except KubeApiError as error:
            if error.status == 404:
                return None
            raise

    def _files(self, plan: KubernetesPlan, private: RunSecrets) -> dict[str, bytes]:
        request = msgspec.json.encode(plan.request)
        if len(request) > _MOST_REQUEST:
            assert private.store is not None
            key = f"{HANDOFFS}/{plan.record.id}/{places.REQUEST}"
            open_objects(private.store).put(key, request)
            request = msgspec.json.encode({"at": plan.record.id})
        return {
            places.REQUEST: request,
            places.PRIVATE: msgspec.json.encode(private._asdict()),
        }

    def _remove_secret(self, run_id: str) -> None:
        with suppress(GoferError):
            self._client.delete(names.core_path(self._namespace, "secrets", run_id))

    def _refused(self, error: KubeApiError) -> CheckFailed:
        target = self._connection.target
        hint = f"`gofer doctor kubernetes {target}` checks your rights; the run is recorded as failed"
        return CheckFailed(f"Kubernetes refused the run: {error}", hint=hint)
