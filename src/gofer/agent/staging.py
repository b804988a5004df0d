"""Brings to a node what a run needs before its command is started."""

from __future__ import annotations

import os
from typing import Any, Mapping

from gofer.agent import checkout
from gofer.agent.naming import ManifestError
from gofer.agent.packs import Read
from gofer.agent.task import Task


def stage(task: Task) -> None:
    """Put the code where the task wants it; raises whatever keeps it from there."""
    snapshot = task.request["snapshot"]
    if snapshot is None:
        os.makedirs(task.code, exist_ok=True)
        return
    store = task.private.store
    checkout.restore(task.store if store is None else _reader(store), snapshot, task.code)


def _reader(spec: Mapping[str, Any]) -> Read:
    """Reads from an object store; ManifestError for what is not there or cannot be had."""
    from gofer.agent.objects import open_objects
    from gofer.agent.objects.facts import Absent, ObjectsError

    objects = open_objects(spec)

    def read(key: str, start: int, length: int) -> bytes:
        try:
            return objects.get_range(key, start, length)
        except Absent as error:
            raise ManifestError(f"the store has no {key}") from error
        except ObjectsError as error:
            raise ManifestError(f"the store did not give {key}: {error}") from error

    return read
