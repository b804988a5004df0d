"""Copy the code of a run to its node, and the standard input or the function that was sent with it."""

from __future__ import annotations

import hashlib
import os
from typing import Callable

from gofer.core import files, run_layout
from gofer.core.code.packs import Read, read_object
from gofer.core.code.snapshot_names import ManifestError
from gofer.core.node_request import FunctionFields
from gofer.core.store_spec import StoreSpec
from gofer.node.code import checkout, git_folder
from gofer.node.code.project_environments import link_environments
from gofer.node.task import Task
from gofer.objects import open_objects
from gofer.objects.facts import ObjectNotFound, ObjectsError


def stage(task: Task) -> None:
    """Put the code into the task's folder, with the times and modes of the person's files and with links to
    the project's environments on this machine. Blocks.

    Errors of the store and of the disk pass through.
    """
    snapshot = task.request.snapshot
    if snapshot is None:
        os.makedirs(task.code, exist_ok=True)
        return
    read = code_reader(task)
    times_key = run_layout.times_key(task.request.id) if task.origin.get("file_times") else None
    checkout.restore(read, snapshot, task.code, times_key=times_key)
    if task.origin.get("git"):
        git_folder.unpack(read_object(read, run_layout.git_key(task.request.id)), task.code)
    link_environments(task.origin, task.code)


def code_reader(task: Task) -> Read:
    """Reads from the store that has the code of a task; ManifestError for what is not there."""
    store = task.private.store
    return checkout.folder_reader(task.store) if store is None else _reader(store)


def with_sent_files(stage_code: Callable[[Task], None]) -> Callable[[Task], None]:
    """A function like `stage_code` that also stages, if they were sent, the standard input for rank 0 and the
    function for every rank.
    """

    def stage_all(task: Task) -> None:
        stage_code(task)
        if task.has_stdin and task.place.node == 0:
            key = run_layout.stdin_key(task.request.id)
            _write_beside(task.stdin, _read_sent(task, key, task.request.stdin or 0))
        if task.request.function is not None:
            _write_beside(task.function, _read_function(task, task.request.function))

    return stage_all


def _write_beside(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)  # the copy of a row is made later
    files.write_whole(path, data, mode=0o600)


def _read_function(task: Task, facts: FunctionFields) -> bytes:
    """The function. ManifestError when it is not the one that was submitted: it would run as this user."""
    key = run_layout.function_key(task.request.id)
    data = _read_sent(task, key, facts["size"])
    if hashlib.sha256(data).hexdigest() != facts["sha256"]:
        raise ManifestError(f"{key} is not the function that was submitted: somebody has changed it")
    return data


def _read_sent(task: Task, key: str, size: int) -> bytes:
    if task.private.store is not None:
        return _reader(task.private.store)(key, 0, size) if size else b""
    with open(os.path.join(task.store, key), "rb") as file:
        return file.read(size)


def _reader(spec: StoreSpec) -> Read:
    """A reader for an object store. The reader raises ManifestError for an object that is absent or cannot be
    read.
    """
    objects = open_objects(spec)

    def read(key: str, start: int, length: int) -> bytes:
        try:
            return objects.get_range(key, start, length)
        except ObjectNotFound as error:
            raise ManifestError(f"the store has no {key}") from error
        except ObjectsError as error:
            raise ManifestError(f"{key} cannot be read from the store: {error}") from error

    return read
