"""The kinds of backend there are: built in, and added by other packages under the entry point
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
    """Where a store lies in Azure's blob storage; `scope` is the folder that a SAS opens, if not all.

    `terms` are the permissions of the SAS that opens the store, where one does. `opener` tells what opens it
    from what opened it before: a hash, so that nothing is given away.
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
    """What a backend is given besides its options: the folder of this machine's queue and the target's
    store. `store_path` is where the runs find the store as a folder, None where they do not; `is_lent` says
    that they can be given access to it otherwise. `machine` is where the cluster is asked; a session always
    gives one. `place_of` says where in Azure's blob storage a store's URL is, None where it is not there.
    `environ` is the environment of the login that the service is asked by; without it, that of the process.
    `placement` names the machines of one run, between commas, where a target has several: "" is all of them.
    """

    target: str
    engine: str
    store_url: str
    store_path: str | None
    is_lent: bool = False
    machine: Machine | None = None
    place_of: Callable[[str], BlobPlace | None] = _nowhere
    environ: Mapping[str, str] | None = None
    placement: str = ""


class Kind(NamedTuple):
    """One kind of backend: the type of its options in gofer.yaml, how to make one, and how the machine is
    reached that its cluster is asked from, where that is not this one. `login` is also given the machine that
    was chosen, for clusters of several that are each asked on their own. `has_jobs` says that its backends
    are HasJobs, and so are asked about names that nobody else knows.
    """

    options: type[msgspec.Struct]
    make: Callable[[msgspec.Struct, BackendContext], Backend]
    login: Callable[[msgspec.Struct, str], Login | None] = _nowhere_else
    has_jobs: bool = False


def check_reach(around: BackendContext) -> None:
    """UsageError when the runs of a target could not reach its store."""
    if around.store_path is None and not around.is_lent:
        raise UsageError(
            f"runs cannot reach the store `{around.store_url}` of the target `{around.target}`",
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
    """The option types of every kind, for the checking of files and for their schema.

    Other packages are looked for only when a word is not a built-in one, or all are wanted.
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
    """The kind of that name; UnknownName with the nearest when there is none."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    for point in _entry_points():
        if point.name == name:
            kind = point.load()
            login, has_jobs = getattr(kind, "login", _nowhere_else), getattr(kind, "has_jobs", False)
            return Kind(kind.options, kind.make, login, has_jobs)
    raise UnknownName(f"no kind of target is called `{name}`", hint=did_you_mean(name, _names()))


def _names() -> list[str]:
    return [*_BUILT_IN, *(point.name for point in _entry_points())]


def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group="gofer.backends")
