"""A kind of backend: the type of its options, and the functions that make a backend from them.

A package of `gofer.backends` is a kind: its module `make` holds a `Kind` with the name `KIND`. Another Python
package adds a kind with an entry point in the group `gofer.backends`, which names a `Kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from gofer.backends.base import Backend, Capabilities
from gofer.backends.target_setup import Setup
from gofer.errors import UsageError

if TYPE_CHECKING:
    from gofer.config.targets import Target
    from gofer.model.checks import Check
    from gofer.transport.machine import Machine
    from gofer.transport.ssh import Login


Options = TypeVar("Options", bound=msgspec.Struct)


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


def _no_variables() -> Mapping[str, str]:
    return {}


class BackendContext(NamedTuple):
    """What a backend gets in addition to its options.

    `target` is the name of the target. `queue_home` is the folder of this machine's queue, in which a backend
    keeps small files. `store_path` is the store as a folder on the nodes, None where it is not one; `is_lent`
    says that the nodes can get a credential for the store. `machine` runs the cluster's commands; a session
    always sets it. `place_of` returns the place of a store's URL in Azure Blob Storage, or None.
    `login_environ` returns the environment of the Azure login that the target uses; UnknownName when the
    login does not exist. `placement` names the machines of one run, separated by commas, where a target has
    several; "" means all. `image` is the complete name of the image that the options name.
    """

    target: str
    queue_home: str
    store_url: str
    store_path: str | None
    is_lent: bool = False
    machine: Machine | None = None
    place_of: Callable[[str], BlobPlace | None] = _nowhere
    login_environ: Callable[[], Mapping[str, str]] = _no_variables
    placement: str = ""
    image: str | None = None


class LoginFacts(Protocol):
    """Who is signed in to Azure."""

    @property
    def user(self) -> str: ...

    @property
    def tenant(self) -> str: ...


class AzureLogins(Protocol):
    """The Azure logins of the person, each a profile with a name."""

    def asking(self, named: str | None) -> str:
        """The profile in use where the settings name the profile `named`."""

    def environ_for(self, owner: str, named: str | None) -> dict[str, str]:
        """The environment of that profile; UnknownName when it does not exist. `owner` names the profile."""

    def signed(self, name: str) -> LoginFacts | None:
        """Who is signed in to a profile; None when nobody is."""


class CheckContext(NamedTuple):
    """What the checks of a kind get. `queue_home` is as in BackendContext. `longest_run_s` is how long a run
    may wait and run, when it has no time limit.
    """

    environ: Mapping[str, str]
    queue_home: str
    logins: AzureLogins
    longest_run_s: float


class KindChecks(NamedTuple):
    """The checks of `gofer doctor WORD [TARGET]`.

    `run` yields the checks of these targets of the kind, in a fixed order; with no targets, those of the
    service itself. It reports problems as a Check and never raises. `store_scheme`, or one of several, begins
    the URLs of the stores that are checked after it.
    """

    word: str
    run: Callable[[Sequence[Target], CheckContext], Iterator[Check]]
    store_scheme: str | tuple[str, ...]


# From the name of a new target: the questions and facts that come before it is written.
SetUp = Callable[[str, CheckContext], Setup]


def _this_machine(options: Any, placement: str) -> Login | None:
    return None


def _plain(options: Any) -> Capabilities:
    return Capabilities()


class Kind(NamedTuple, Generic[Options]):
    """One kind of backend.

    `options` is the type of the options of a target in gofer.yaml. `make` returns the backend of a target;
    UsageError for options that do not fit together and for a store that runs could not reach. `capabilities`
    returns what the options of a target say of it; pure. `login` returns the login for the machine that runs
    the cluster's commands; None means this machine. Its second argument is the machine chosen for a run, for
    targets of several separate machines.

    `runs_here`: runs are processes of this machine, in the queue that all targets of such kinds share.
    `reads_sbatch`: the cluster is Slurm, so it reads `#SBATCH` lines and has the programs and variables of
    Slurm. `has_jobs`: `Backend.job_service` is never None, so gofer asks these targets about names that are
    in no ledger. `uses_azure_login`: targets sign in with one of the person's Azure logins.
    `checks`: what `gofer doctor` can check of targets of the kind. `set_up`: how `gofer target add` makes a
    target of the kind.
    """

    options: type[Options]
    make: Callable[[Options, BackendContext], Backend]
    login: Callable[[Options, str], Login | None] = _this_machine
    capabilities: Callable[[Options], Capabilities] = _plain
    runs_here: bool = False
    reads_sbatch: bool = False
    has_jobs: bool = False
    uses_azure_login: bool = False
    checks: KindChecks | None = None
    set_up: SetUp | None = None


def check_reach(context: BackendContext) -> None:
    """Raise UsageError when the runs of a target could not reach its store."""
    if context.store_path is None and not context.is_lent:
        raise UsageError(
            f"runs cannot reach the store `{context.store_url}` of the target `{context.target}`",
            hint="give the target a store whose URL begins with `file://`, `az://` or `s3://`",
        )
