"""Private values of a run, kept beside the queue until the run ends: mode 0600, never in a record or a
log.

They are written before the run is recorded, under the name of the process that does it, and confirmed when
it is: so what a killed submission left can be told from what a recorded run still needs.
"""

from __future__ import annotations

import json
import os
from typing import Mapping

from gofer.agent import files, processes


def _path(engine: str, request_id: str) -> str:
    return os.path.join(engine, "sealed", f"{request_id}.json")


def write(engine: str, request_id: str, values: Mapping[str, str]) -> None:
    """Until `confirm`, they go when the calling process does; see `abandoned`."""
    folder = os.path.join(engine, "sealing")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"{request_id}@{processes.identify(os.getpid())}")
    files.write_whole(path, files.encode(dict(values)), mode=0o600)


def confirm(engine: str, request_id: str) -> None:
    """The run is recorded. Idempotent; nothing happens when nothing was sealed."""
    for name in _unconfirmed(engine):
        if name.startswith(f"{request_id}@") and not name.endswith(".tmp"):
            os.makedirs(os.path.join(engine, "sealed"), mode=0o700, exist_ok=True)
            os.replace(os.path.join(engine, "sealing", name), _path(engine, request_id))


def abandoned(engine: str) -> dict[str, str]:
    """Path → request id of what processes that are dead now sealed and did not confirm."""
    found = {}
    for name in _unconfirmed(engine):
        request_id, _, writer = name.partition("@")
        pid, _, start = writer.partition(".")[0].partition(":")
        if not processes.is_alive(processes.Identity(int(pid), int(start))):
            found[os.path.join(engine, "sealing", name)] = request_id
    return found


def _unconfirmed(engine: str) -> list[str]:
    try:
        return os.listdir(os.path.join(engine, "sealing"))
    except FileNotFoundError:
        return []


def read(engine: str, request_id: str) -> dict[str, str]:
    """Empty when nothing was sealed."""
    try:
        with open(_path(engine, request_id), "rb") as file:
            values: dict[str, str] = json.load(file)
    except FileNotFoundError:
        return {}
    return values


def remove(engine: str, request_id: str) -> None:
    files.remove(_path(engine, request_id))
