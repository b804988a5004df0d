"""Private values of a run, kept in the queue's folder until the run ends: mode 0600, never in a record or a
log.

`write` stores them before the run is recorded, in a file named after the submitting process. `confirm` gives
the file its final name once the run is recorded. So the values that a killed submission left can be
distinguished from those that a recorded run still needs.
"""

from __future__ import annotations

import json
import os
import re
from typing import Dict, NamedTuple, Optional, Sequence

from gofer.core import files, private_folder, processes
from gofer.core.command.process_limits import ProcessLimits
from gofer.core.secrets.mask import SecretMask, credentials
from gofer.core.secrets.secret_files import values_of
from gofer.core.store_spec import StoreSpec


class RunSecrets(NamedTuple):
    """Values for one run that nobody else may see.

    `environment` is added to the environment of the run's commands. `store` are the settings of the run's
    store with credentials, as `gofer.objects.open_objects` takes them; None when the store is a folder on
    this machine. `folders` are the same for the stores of mapped folders, by folder name. `secrets` are the
    names of the variables in `environment` whose values no log may show. `files` are files of the code that
    nobody else may read: see `gofer.core.secrets.secret_files`. `limits` are those of the submitting shell,
    as gofer.core.command.process_limits reads them; None where the machine's own apply.
    """

    # Types that Python 3.8 can evaluate: gofer.remote.calls decodes by them.
    environment: Dict[str, str]
    store: Optional[StoreSpec]
    folders: Dict[str, StoreSpec]
    secrets: Sequence[str] = ()
    files: Optional[Dict[str, str]] = None
    limits: Optional[ProcessLimits] = None

    def mask(self) -> SecretMask:
        """A mask for everything that leaves the node: the values of `secrets`, those in `files`, and the
        credentials of stores.
        """
        values = [self.environment[name] for name in self.secrets if name in self.environment]
        for spec in [self.store or {}, *self.folders.values()]:
            values += credentials(spec)
        if self.files:
            values += values_of(self.files)
        return SecretMask(values)


# The secret by which the agents of an elastic run know each other. Ranks do not get it.
ELASTIC_KEY = "GOFER_ELASTIC_KEY"
NOTHING = RunSecrets({}, None, {})
# Request id, then pid and start time of the process that wrote the file. A name with a dot after these is an
# incomplete file.
_NAME = re.compile(r"([^@]+)@([0-9]{1,19}):([0-9]{1,19})(?:\..*)?\Z", re.ASCII)


def _folder(queue_home: str) -> str:
    return os.path.join(queue_home, "sealed")


def _path(queue_home: str, request_id: str) -> str:
    return os.path.join(_folder(queue_home), f"{request_id}.json")


def write(queue_home: str, request_id: str, values: RunSecrets) -> None:
    """Store private values for a request. Until `confirm`, they count only while the calling process lives:
    see `abandoned`.
    """
    private_folder.make(_folder(queue_home))
    me = processes.identify(os.getpid())
    if me is None:
        raise OSError(
            "/proc does not list this process, so other processes could not check whether it is alive"
        )
    path = os.path.join(_folder(queue_home), f"{request_id}@{me}")
    files.write_whole(path, files.encode(values._asdict()), mode=0o600)


def confirm(queue_home: str, request_id: str) -> None:
    """Mark the values of a request as belonging to a recorded run. Idempotent; does nothing when there are
    none.
    """
    if os.path.exists(_path(queue_home, request_id)):
        return
    for path in _unconfirmed(queue_home, request_id):
        os.replace(path, _path(queue_home, request_id))


def abandoned(queue_home: str) -> dict[str, str]:
    """Path → request id of unconfirmed values whose process is dead.

    Files whose names gofer would not write are left out.
    """
    found = {}
    for path in _unconfirmed(queue_home):
        parts = _NAME.match(os.path.basename(path))
        if parts and not processes.is_alive(processes.ProcessIdentity(int(parts[2]), int(parts[3]))):
            found[path] = parts[1]
    return found


def _unconfirmed(queue_home: str, request_id: str = "") -> list[str]:
    """Paths of unconfirmed values. With a request id, only its own and no incomplete files."""
    try:
        names = os.listdir(_folder(queue_home))
    except FileNotFoundError:
        return []
    if request_id:
        names = [name for name in names if name.startswith(f"{request_id}@") and not name.endswith(".tmp")]
    return [os.path.join(_folder(queue_home), name) for name in names if "@" in name]


def kept(queue_home: str) -> list[str]:
    """The ids of requests whose confirmed private values are still on this machine."""
    try:
        names = os.listdir(_folder(queue_home))
    except FileNotFoundError:
        return []
    return [name[: -len(".json")] for name in names if name.endswith(".json") and "@" not in name]


def read(queue_home: str, request_id: str) -> RunSecrets:
    """The private values of a request; NOTHING when there are none."""
    confirm(queue_home, request_id)
    try:
        with open(_path(queue_home, request_id), "rb") as file:
            return RunSecrets(**json.load(file))
    except FileNotFoundError:
        return NOTHING


def remove(queue_home: str, request_id: str) -> None:
    confirm(queue_home, request_id)
    files.remove(_path(queue_home, request_id))
