"""The kinds of backend: those built in, and those that other packages add with an entry point in the group
`gofer.backends`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.backends.base import Backend
from gofer.errors import UnknownName, UsageError
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from gofer.transport.machine import Machine
    from gofer.transport.ssh import Login


def _nowhere_else(options: msgspec.Struct, placement: str) -> Login | None:
    return None


class BlobPlace(NamedTuple):
    """Where a store is in Azure Blob Storage; `scope` is the folder that a SAS opens, if it opens only one.

    `terms` are the permissions of the SAS that opens the store, if a SAS does. `opener` is a hash of the
    credential: it changes when the credential changes, and reveals nothing.
    """

    account: str
    endpoint: str
    container: str
    prefix: str
    scope: str = ""
    terms: str = ""
    opener: str = ""


def _nowhere(url: str) -> BlobPlace | None:
    return None


class BackendContext(NamedTuple):
    """What a backend gets in addition to its options.

    `queue_home` is the folder of this machine's queue. `store_path` is the store as a folder on the
    nodes, None where it is not one; `is_lent` says that the nodes can get a credential for the store.
    `machine` runs the cluster's commands; a session always sets it. `place_of` returns the place of a
    store's URL in Azure Blob Storage, or None. `environ` is the environment of the login for the service
    (default: that of the process). `placement` names the machines of one run, separated by commas, where
    a target has several; "" means all.
    """

    target: str
    queue_home: str
    store_url: str
    store_path: str | None
    is_lent: bool = False
    machine: Machine | None = None
    place_of: Callable[[str], BlobPlace | None] = _nowhere
    environ: Mapping[str, str] | None = None
    placement: str = ""


class Kind(NamedTuple):
    """One kind of backend: the type of its options in gofer.yaml, and the function that makes a backend.

    `login` returns the login for the machine that runs the cluster's commands; None means this machine. Its
    second argument is the machine chosen for a run, for targets of several separate machines. `has_jobs` says
    that the backends are HasJobs: gofer asks them about names that are in no ledger.
    """

    options: type[msgspec.Struct]
    make: Callable[[msgspec.Struct, BackendContext], Backend]
    login: Callable[[msgspec.Struct, str], Login | None] = _nowhere_else
    has_jobs: bool = False


def check_reach(context: BackendContext) -> None:
    """Raise UsageError when the runs of a target could not reach its store."""
    if context.store_path is None and not context.is_lent:
        raise UsageError(
            f"runs cannot reach the store `{context.store_url}` of the target `{context.target}`",
            hint="give the target a store whose URL begins with `file://`, `az://` or `s3://`",
        )


def _local() -> Kind:
    from gofer.backends.local.make import KIND

    return KIND


def _ssh() -> Kind:
    from gofer.backends.ssh.make import KIND

    return KIND


def _slurm() -> Kind:
    from gofer.backends.slurm.make import KIND

    return KIND


def _azureml() -> Kind:
    from gofer.backends.azureml.make import KIND

    return KIND


_BUILT_IN: dict[str, Callable[[], Kind]] = {
    "azureml": _azureml,
    "local": _local,
    "slurm": _slurm,
    "ssh": _ssh,
}


class Kinds(Mapping[str, type[msgspec.Struct]]):
    """The option types of every kind, for checking files and for their schema.

    Entry points of other packages are read only for a word that is not built in, or when all kinds are
    wanted: reading them is slow.
    """

    def __getitem__(self, name: str) -> type[msgspec.Struct]:
        return find(name).options

    def __contains__(self, name: object) -> bool:
        return name in _BUILT_IN or name in _names()

    def __iter__(self) -> Iterator[str]:
        return iter(_names())

    def __len__(self) -> int:
        return len(_names())


def find(name: str) -> Kind:
    """The kind of that name; UnknownName, with the nearest name as a hint, when there is none."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    for point in _entry_points():
        if point.name == name:
            kind = point.load()
            # Kinds of other packages may have been written before these fields existed.
            login, has_jobs = getattr(kind, "login", _nowhere_else), getattr(kind, "has_jobs", False)
            return Kind(kind.options, kind.make, login, has_jobs)
    raise UnknownName(f"no kind of target is called `{name}`", hint=did_you_mean(name, _names()))


def _names() -> list[str]:
    return [*_BUILT_IN, *(point.name for point in _entry_points())]


def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group="gofer.backends")
