"""Private values of a run, kept beside the queue until the run ends: mode 0600, never in a record or a
log.

They are written before the run is recorded, under the name of the process that does it, and confirmed when
it is: so what a killed submission left can be told from what a recorded run still needs.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from gofer.agent import files, processes


class Private(NamedTuple):
    """What a run may know and nobody else.

    `environment` is added to that of its commands, `store` opens the store of its folder (as
    `gofer.agent.objects.open_objects` takes it; None for one that is a folder here), `folders` the stores of
    its mapped folders, by their names.
    """

    environment: dict[str, str]
    store: dict[str, Any] | None
    folders: dict[str, dict[str, Any]]


NOTHING = Private({}, None, {})


def _folder(engine: str) -> str:
    return os.path.join(engine, "sealed")


def _path(engine: str, request_id: str) -> str:
    return os.path.join(_folder(engine), f"{request_id}.json")


def write(engine: str, request_id: str, values: Private) -> None:
    """Until `confirm`, they are worth no more than the calling process; see `abandoned`."""
    os.makedirs(_folder(engine), mode=0o700, exist_ok=True)
    path = os.path.join(_folder(engine), f"{request_id}@{processes.identify(os.getpid())}")
    files.write_whole(path, files.encode(values._asdict()), mode=0o600)


def confirm(engine: str, request_id: str) -> None:
    """The run is recorded. Idempotent; nothing happens when nothing was sealed."""
    if os.path.exists(_path(engine, request_id)):
        return
    for path in _unconfirmed(engine, request_id):
        os.replace(path, _path(engine, request_id))


def abandoned(engine: str) -> dict[str, str]:
    """Path → request id of what processes that are dead now sealed and did not confirm."""
    found = {}
    for path in _unconfirmed(engine):
        request_id, _, writer = os.path.basename(path).partition("@")
        pid, _, start = writer.partition(".")[0].partition(":")
        if not processes.is_alive(processes.Identity(int(pid), int(start))):
            found[path] = request_id
    return found


def _unconfirmed(engine: str, request_id: str = "") -> list[str]:
    """Also halves of files, for `abandoned`, but not for one request."""
    try:
        names = os.listdir(_folder(engine))
    except FileNotFoundError:
        return []
    if request_id:
        names = [name for name in names if name.startswith(f"{request_id}@") and not name.endswith(".tmp")]
    return [os.path.join(_folder(engine), name) for name in names if "@" in name]


def kept(engine: str) -> list[str]:
    """The requests whose private values are still here."""
    try:
        names = os.listdir(_folder(engine))
    except FileNotFoundError:
        return []
    return [name[: -len(".json")] for name in names if name.endswith(".json") and "@" not in name]


def read(engine: str, request_id: str) -> Private:
    """Empty when nothing was sealed."""
    confirm(engine, request_id)
    try:
        with open(_path(engine, request_id), "rb") as file:
            return Private(**json.load(file))
    except FileNotFoundError:
        return NOTHING


def remove(engine: str, request_id: str) -> None:
    confirm(engine, request_id)
    files.remove(_path(engine, request_id))
