"""Private values of a run, kept beside the queue until the run ends: mode 0600, never in a record or a
log.

They are written before the run is recorded, under the name of the process that does it, and confirmed when
it is: so what a killed submission left can be told from what a recorded run still needs.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple, Sequence

from gofer.core import files, private_folder, processes
from gofer.core.secrets.mask import SecretMask, credentials
from gofer.core.secrets.values import values_of


class Private(NamedTuple):
    """What a run may know and nobody else.

    `environment` is added to that of its commands, `store` opens the store of its folder (as
    `gofer.objects.open_objects` takes it; None for one that is a folder here), `folders` the stores of
    its mapped folders, by their names. `secrets` are the names of the variables in `environment` whose values
    no log may show. `files` are files of its code that nobody else may read, see
    `gofer.core.secrets.secret_files`. `limits` are those of the shell that submitted it, as
    gofer.core.process_limits reads them; None where the machine's own count.
    """

    environment: dict[str, str]
    store: dict[str, Any] | None
    folders: dict[str, dict[str, Any]]
    secrets: Sequence[str] = ()
    files: dict[str, str] | None = None
    limits: dict[str, Any] | None = None

    def mask(self) -> SecretMask:
        """For all that leaves the node: the values of `secrets`, those in `files`, and the keys of stores."""
        values = [self.environment[name] for name in self.secrets if name in self.environment]
        for spec in [self.store or {}, *self.folders.values()]:
            values += credentials(spec)
        if self.files:
            values += values_of(self.files)
        return SecretMask(values)


NOTHING = Private({}, None, {})
# The request, and the process that sealed for it; what follows a dot is half a file.
_NAME = re.compile(r"([^@]+)@([0-9]{1,19}):([0-9]{1,19})(?:\..*)?\Z", re.ASCII)


def _folder(engine: str) -> str:
    return os.path.join(engine, "sealed")


def _path(engine: str, request_id: str) -> str:
    return os.path.join(_folder(engine), f"{request_id}.json")


def write(engine: str, request_id: str, values: Private) -> None:
    """Until `confirm`, they are worth no more than the calling process; see `abandoned`."""
    private_folder.make(_folder(engine))
    me = processes.identify(os.getpid())
    if me is None:
        raise OSError("/proc does not show this process, so that nobody could tell whether it is alive")
    path = os.path.join(_folder(engine), f"{request_id}@{me}")
    files.write_whole(path, files.encode(values._asdict()), mode=0o600)


def confirm(engine: str, request_id: str) -> None:
    """The run is recorded. Idempotent; nothing happens when nothing was sealed."""
    if os.path.exists(_path(engine, request_id)):
        return
    for path in _unconfirmed(engine, request_id):
        os.replace(path, _path(engine, request_id))


def abandoned(engine: str) -> dict[str, str]:
    """Path → request id of what processes that are dead now sealed and did not confirm.

    A file of another name is not gofer's, and is left alone.
    """
    found = {}
    for path in _unconfirmed(engine):
        parts = _NAME.match(os.path.basename(path))
        if parts and not processes.is_alive(processes.ProcessIdentity(int(parts[2]), int(parts[3]))):
            found[path] = parts[1]
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
