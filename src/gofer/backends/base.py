"""The contract of a backend: plan, submit, observe, cancel; and the protocols of optional capabilities.

`plan` is pure. The other three do I/O, block, and are idempotent: after a crash or a lost answer, gofer calls
them again. Errors of the cluster's tools are wrapped in the BackendError family.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

from gofer.core.secrets.run_secrets import RunSecrets
from gofer.core.states import State
from gofer.model.job import Job
from gofer.model.layout import Layout
from gofer.model.run import Observation, RunRecord
from gofer.objects.facts import ObjectInfo


class Plan(Protocol):
    """The exact request that a backend would send. A plan holds no secret, so it may be printed and kept."""

    @property
    def record(self) -> RunRecord:
        """The run that the plan is for."""

    def render(self) -> str:
        """The script, manifest or request body as `--dry-run` prints it."""


class RunRef(NamedTuple):
    """A run to ask about. A single run has neither group nor row; a whole array has only its `size`."""

    id: str
    group: str | None = None
    row: int | None = None
    size: int = 0


class Backend(Protocol):
    """One target of one kind. `gofer.testing` has the tests that every backend passes."""

    @property
    def kind(self) -> str:
        """The word in `kind:` of the target in gofer.yaml."""

    def lay_out(self, job: Job) -> Layout:
        """How the job is spread over nodes and processes; CheckFailed when this target can never run it."""

    def plan(self, record: RunRecord) -> Plan:
        """Make the plan. Pure: no I/O, and equal plans for equal records."""

    def submit(self, plan: Plan) -> None:
        """Send the plan.

        Idempotent: the run id is the key, so a second call with the same plan changes nothing.
        """

    def observe(self, runs: Sequence[RunRef]) -> Mapping[str, Observation]:
        """Ask the cluster once about all runs.

        Runs that the cluster does not know are left out of the answer.
        """

    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        """Ask the cluster to end runs, gracefully and then by force. Ended and unknown runs are ignored."""


@runtime_checkable
class HidesGpus(Protocol):
    """A backend on which a run that asks for no GPU sees no GPU, even on nodes that have some."""

    @property
    def gpus_per_node(self) -> int:
        """The GPUs that a node of the target has; 0 for none, and where the number is not known."""


@runtime_checkable
class SelectsMachines(Protocol):
    """A backend of several machines that selects the machines of each run."""

    def select_machines(self, layout: Layout) -> str:
        """The machines for a run of this shape, separated by commas. gofer records them before it sends the
        run.
        """


@runtime_checkable
class KeepsSecrets(Protocol):
    """A backend that can keep the secrets of a run until the run ends."""

    def keep_secrets(self, run_id: str, values: RunSecrets) -> None:
        """Store `values` where the run can read them and no other user can.

        Called before the run is recorded.
        """

    def drop_abandoned_secrets(self, is_recorded: Callable[[str], bool]) -> None:
        """Remove the secrets of submissions that were killed before the run was recorded."""


@runtime_checkable
class KeepsUnsentSecrets(Protocol):
    """A backend that keeps the secrets of a failed submission, so that the run can be sent later."""

    def remove_secrets(self, run_id: str) -> None:
        """Remove the secrets of a run or array that will never be sent, wherever they are. Idempotent."""


@runtime_checkable
class Identifies(Protocol):
    """A backend whose nodes can open stores with an identity of their own, without a signature from gofer."""

    @property
    def node_identity(self) -> dict[str, str | None] | None:
        """The identity for gofer.objects; None where gofer gives the nodes a signature."""


class RunCredential(NamedTuple):
    """A credential that a run depends on. `what` names the credential without its value; `mend` says what to
    do when it ends. Credentials that never end are not listed.
    """

    what: str
    ends_at: float
    mend: str


@runtime_checkable
class HasCredentials(Protocol):
    """A backend whose cluster uses credentials for runs that gofer did not supply."""

    def run_credentials(self) -> list[RunCredential]:
        """The credentials that end, as far as the cluster reports them. Asks the cluster; blocks."""


@runtime_checkable
class SeesEnvironment(Protocol):
    """A backend whose nodes may see the environment of the submitting shell, and so its Python packages."""

    @property
    def sees_environment(self) -> bool:
        """Whether the nodes see it. If so, gofer builds no packages for a job that does not ask for them."""


@runtime_checkable
class ReadsFolder(Protocol):
    """A backend whose cluster knows that a run ended, but not how: the records in the run's folder decide."""

    @property
    def reads_folder(self) -> bool:
        """Whether this holds for the target."""


@runtime_checkable
class DecidesGrace(Protocol):
    """A backend whose service decides how long a cancelled run may take to end; `grace_s` has no effect."""

    @property
    def decides_grace(self) -> bool:
        """Whether this holds for the target."""


@runtime_checkable
class ReportsStall(Protocol):
    """A backend whose queue needs a process of gofer, which may be missing."""

    def stalled(self) -> str | None:
        """Why no process works on the queue, in words that say what to do; None when a process does."""


@runtime_checkable
class Describes(Protocol):
    """A backend that can report what its cluster has and what is free."""

    def describe(self) -> Mapping[str, object]:
        """Facts for `gofer target show`, as plain JSON values. Asks the cluster; blocks."""


class Waiting(NamedTuple):
    """Why a run waits: `why` in words that a person can act on, and `ahead`, the number of runs before it
    where the number is known. `estimate` is when the cluster expects the run to start (seconds since the
    epoch).
    """

    why: str
    ahead: int | None = None
    estimate: float | None = None


@runtime_checkable
class ExplainsWaiting(Protocol):
    """A backend that can report why a run waits."""

    def waiting(self, run: RunRef) -> Waiting | None:
        """None when the run does not wait, or when the cluster does not know the run."""


class NodeFacts(NamedTuple):
    """One node of a cluster. `state` is free, mixed, busy or down; `detail` has the cluster's own word."""

    name: str
    state: str
    detail: str = ""
    cpus: int = 0
    cpus_free: int = 0
    memory_mib: int = 0
    gpus: int = 0
    gpus_free: int = 0
    gpu_type: str = ""
    partitions: tuple[str, ...] = ()


@runtime_checkable
class HasNodes(Protocol):
    """A backend that can list its nodes."""

    def nodes(self) -> Sequence[NodeFacts]:
        """All nodes of the target, sorted by name."""


@runtime_checkable
class Shells(Protocol):
    """A backend that can open a shell on a node of a running run."""

    def shell(
        self, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> Sequence[str]:
        """The local command line that opens a shell beside the run, or that runs `command` there.

        `node` counts from 0; without it, the first node of the run is used. `terminal` says that the user has
        a terminal, which the command line then passes on. Raises CheckFailed when the run does not run on
        that node.
        """


class ServiceJob(NamedTuple):
    """A job of the service, started by gofer or not.

    `command` is one line of shell: for a job of gofer the user's command, for others what the service runs.
    Times are seconds since the epoch. `error` is the service's explanation of a failure. `gpus` is None for a
    job on another compute than the target's, because the target does not describe those nodes.
    """

    name: str
    state: State
    status: str
    display_name: str = ""
    experiment: str = ""
    user: str = ""
    command: str = ""
    nodes: int = 1
    procs_per_node: int = 1
    gpus: int | None = 0
    compute: str = ""
    created_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    tags: Mapping[str, str] = MappingProxyType({})
    portal: str = ""
    error: str = ""
    is_ours: bool = False


class JobFilter(NamedTuple):
    """The conditions for a listing of the service's jobs. The service applies them where it can.

    `within_s` limits the time of the search; the answer then has the newest jobs that were found in this
    time.
    """

    states: frozenset[State] = frozenset()
    experiment: str = ""
    tag: str = ""
    user: str = ""
    name_end: str = ""
    most: int = 50
    within_s: float | None = None


@runtime_checkable
class HasJobs(Protocol):
    """A backend whose service also has jobs that gofer did not start. Any thread may call.

    Targets with the same `service_name` have the same jobs.
    """

    service_name: str

    def jobs(self, wanted: JobFilter) -> Sequence[ServiceJob]:
        """The jobs that match, newest first, at most `most`."""

    def job(self, name: str) -> ServiceJob | None:
        """The job of that name; None when the service has no such job."""


# The largest piece of a log that is read at once: a log may be larger than the memory of this machine.
NATIVE_PIECE = 4 << 20


@runtime_checkable
class NativeLogs(Protocol):
    """A backend whose service keeps logs of its own."""

    def native_logs(self, job: str) -> Sequence[str]:
        """The names of the job's log files, the most useful first; empty for an unknown job."""

    def native_size(self, job: str, name: str) -> int | None:
        """The present size of a log; None when there is no log of that name."""

    def read_native(self, job: str, name: str, start: int) -> bytes:
        """NATIVE_PIECE bytes from `start`, by a range request; fewer bytes, or none, only at the end of the
        log.
        """


@runtime_checkable
class HasPortal(Protocol):
    """A backend whose service has web pages."""

    def portal(self, run: RunRef | None = None) -> str:
        """The address of the web page of a run, or of the target."""


class Prunable(NamedTuple):
    """Something that gofer keeps and no run needs. `kind` and `name` identify it within its place; `at` is
    the time of its last use (seconds since the epoch), `why` explains why no run needs it.
    """

    place: str
    kind: str
    name: str
    size: int
    at: float
    why: str


class RunEnd(NamedTuple):
    """When a run, or the last run of a group, ended. `is_recorded` says that the store has a record of the
    end, so that a ledger made again from the store also knows it.
    """

    at: float
    is_recorded: bool = False


class KeptObjects(Protocol):
    """The part of a store that pruning needs; see gofer.storage.base."""

    def get(self, key: str) -> bytes: ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]: ...

    def delete(self, keys: Iterable[str]) -> int: ...


class PruneBounds(NamedTuple):
    """What may be removed. For runs: those that ended before `before`. For things that belong to no run:
    those last used before `unused_since`. `whole` are runs and groups that are removed with everything they
    left.

    `ended` returns, of the given runs and groups, those that have ended. It leaves out those that have not
    ended or whose state is not known. With `proven`, it also reads the records in the store. Any thread may
    call `ended`. `store` is the target's store.
    """

    before: float
    unused_since: float
    ended: Callable[[Collection[str], bool], Mapping[str, RunEnd]]
    store: KeptObjects
    whole: frozenset[str] = frozenset()


class KeptPlace(Protocol):
    """A place where gofer keeps things.

    Both methods ask the place, block, and may be called again at any time.
    """

    @property
    def name(self) -> str:
        """The name shown to people; unique among the places."""

    def prunable(self, bounds: PruneBounds) -> Sequence[Prunable]:
        """What may be removed now. Changes nothing."""

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> Sequence[Prunable]:
        """Remove these things and return those that are gone.

        Each is checked again right before its removal.
        """


@runtime_checkable
class Prunes(Protocol):
    """A backend that keeps things on its cluster which `gofer prune` can remove."""

    def kept_places(self) -> Sequence[KeptPlace]:
        """The places. Does no I/O."""
