"""Stops runs: the Job gets a deadline that is over, so that it stays as the record of its end.

A deleted Job would leave nothing by which another machine knows that the run was stopped. Kubernetes then
ends the pods as for any deadline, and the agents read in the store that a person asked for it.
"""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gofer.backends.base import RunRef
from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.backends.kubernetes.manifest import SEND_S
from gofer.core.json_text import parse_json
from gofer.node.kubernetes import places
from gofer.node.rendezvous.peer_messages import MESSAGES_FOLDER
from gofer.node.service.stop_order import ORDER, encode_order
from gofer.objects import open_objects
from gofer.objects.facts import ObjectsError
from gofer.transport.kubernetes.client import KubeApiError


class Stopper:
    """Stops the runs of one request. `store` opens the store of the run; without it, the Secret of the run
    says how.
    """

    def __init__(self, connection: KubernetesConnection, store: Mapping[str, Any] | None) -> None:
        self._client = connection.client
        self._namespace = connection.namespace
        self._store = store

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
        spec = self._store or self._kept_store(request_id)
        if spec is None:
            return
        key = f"{MESSAGES_FOLDER}/{request_id}/{part}/{ORDER}"
        with suppress(ObjectsError):  # the Job says it too
            open_objects(dict(spec)).put(key, encode_order(grace_s))

    def _kept_store(self, request_id: str) -> Mapping[str, Any] | None:
        """What opens the store, from the Secret of the run: another machine has submitted the run."""
        try:
            secret = self._client.get(names.core_path(self._namespace, "secrets", request_id))
            private = parse_json(base64.b64decode(secret["data"][places.PRIVATE]))
        except (KubeApiError, KeyError, ValueError):
            return None
        store = private.get("store") if isinstance(private, dict) else None
        return store if isinstance(store, dict) else None
