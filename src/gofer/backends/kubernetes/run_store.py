"""The store of a run, as the run itself opens it: for what a command tells the run's pods."""

from __future__ import annotations

import base64
from typing import cast

from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.core.json_text import parse_json
from gofer.core.secrets import run_secrets
from gofer.core.store_spec import StoreSpec
from gofer.node.kubernetes import places
from gofer.objects import open_objects
from gofer.objects.base import ObjectService
from gofer.transport.kubernetes.client import KubeApiError


def open_run_store(connection: KubernetesConnection, request_id: str) -> ObjectService | None:
    """The store of a run or array; None when its credentials are gone, as after its end. Blocks.

    The machine that submitted the run has them; any other machine reads them in the Secret of the run.
    """
    spec = run_secrets.read(connection.folder, request_id).store or _from_secret(connection, request_id)
    opened = None if spec is None else open_objects(spec)
    return opened if isinstance(opened, ObjectService) else None


def _from_secret(connection: KubernetesConnection, request_id: str) -> StoreSpec | None:
    try:
        secret = connection.client.get(names.core_path(connection.namespace, "secrets", request_id))
        private = parse_json(base64.b64decode(secret["data"][places.PRIVATE]))
    except (KubeApiError, KeyError, ValueError):
        return None
    store = private.get("store") if isinstance(private, dict) else None
    return cast("StoreSpec", store) if isinstance(store, dict) else None
