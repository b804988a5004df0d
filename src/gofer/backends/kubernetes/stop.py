"""Stops runs: the Job gets a deadline that is over, so that it stays as the record of its end.

A deleted Job would leave nothing by which another machine knows that the run was stopped. Kubernetes then
ends the pods as for any deadline, and the agents read in the store that a person asked for it.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress

from gofer.backends.base import RunRef
from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.backends.kubernetes.manifest import SEND_S
from gofer.backends.kubernetes.run_store import open_run_store
from gofer.node.rendezvous.peer_messages import MESSAGES_FOLDER
from gofer.node.service.stop_order import ORDER, encode_order
from gofer.objects.facts import ObjectsError
from gofer.transport.kubernetes.client import KubeApiError


class Stopper:
    """Stops the runs of one target."""

    def __init__(self, connection: KubernetesConnection) -> None:
        self._connection = connection
        self._client = connection.client
        self._namespace = connection.namespace

    def stop(self, run: RunRef, grace_s: float | None) -> None:
        """Ask the cluster to end the run. Idempotent; a run that the cluster does not know is ignored."""
        name = names.job_name(run)
        selector = f"{names.JOB_NAME_LABEL}={name}"
        if run.row is not None:
            self._order(name, str(run.row), grace_s)
            self._delete_pods(f"{selector},{self._of_row(name, run.row)}", grace_s)
            return
        self._order(name, "run", grace_s)
        if grace_s is not None:
            self._delete_pods(selector, grace_s)
        self._end_job(name)

    def _end_job(self, name: str) -> None:
        patch = {
            "metadata": {"annotations": {names.STOP_NOTE: str(int(time.time()))}},
            "spec": {"activeDeadlineSeconds": 1},
        }
        try:
            self._client.patch(names.jobs_path(self._namespace, name), patch)
        except KubeApiError as error:
            if error.status != 404:
                raise

    def _of_row(self, name: str, row: int) -> str:
        """The selector of the pods of a row."""
        try:
            job = self._client.get(names.jobs_path(self._namespace, name))
        except KubeApiError as error:
            if error.status != 404:
                raise
            job = {"metadata": {}}
        nodes = int((job["metadata"].get("annotations") or {}).get(names.NODES_NOTE) or 1)
        indexes = ",".join(str(index) for index in range(row * nodes, (row + 1) * nodes))
        return f"{names.INDEX_LABEL} in ({indexes})"

    def _delete_pods(self, selector: str, grace_s: float | None) -> None:
        whole_s = None if grace_s is None else math.ceil(grace_s) + SEND_S
        pods = names.core_path(self._namespace, "pods")
        self._client.delete_all(pods, selector, grace_s=whole_s)

    def _order(self, request_id: str, part: str, grace_s: float | None) -> None:
        """Write into the store that the run is to stop: its agents read it when their pods are ended."""
        store = open_run_store(self._connection, request_id)
        if store is None:
            return
        with suppress(ObjectsError):  # the Job says it too
            store.put(f"{MESSAGES_FOLDER}/{request_id}/{part}/{ORDER}", encode_order(grace_s))
