"""The contract of a backend: one target of one kind of cluster.

`Backend` has six methods that every backend implements: `lay_out`, `plan`, `keep_secrets`, `submit`,
`observe` and `cancel`. The other methods are optional. Each has a default that says that the cluster has
nothing of this sort: an empty answer, or None. gofer never asks which class or kind a backend is: it calls
the method, or reads `Backend.capabilities`, which are plain facts from the options of the target.

`plan` is pure: `prepare` reads before what a plan needs. The other methods may do I/O, block, and are
idempotent: after a crash or a lost answer, gofer calls them again. Errors of the cluster's tools are wrapped
in the BackendError family. `gofer.testing` has the tests that every backend passes.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gofer.core.states import State
from gofer.core.store_spec import IdentitySpec
from gofer.model.job import Job
from gofer.model.layout import Layout
from gofer.model.run import Observation, RunRecord
from gofer.objects.facts import ObjectInfo

if TYPE_CHECKING:
    from gofer.core.secrets.run_secrets import RunSecrets  # most commands send no run


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


class RunCredential(NamedTuple):
    """A credential that a run depends on. `what` names the credential without its value; `mend` says what to
    do when it ends. Credentials that never end are not listed.
    """

    what: str
    ends_at: float
    mend: str


class Waiting(NamedTuple):
    """Why a run waits: `why` in words that a person can act on ("" where the cluster does not say), and
    `ahead`, the number of runs before it where the number is known. `estimate` is when the cluster expects
    the run to start (seconds since the epoch). `parents` are running runs that have to end before this one
    can start, and have themselves submitted runs that wait. `next` are complete command lines that help, the
    most likely first.
    """

    why: str = ""
    ahead: int | None = None
    estimate: float | None = None
    parents: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


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


class ServiceImage(NamedTuple):
    """An image, or an environment, that a service offers to the jobs of a target. `kind` is the service's own
    word; `setting` is the line that names the image in the target; `contents` is what the service says of it.
    """

    name: str
    kind: str
    setting: str
    contents: str = ""


# A search for little among a service's jobs ends after this many: it would read years of history.
MOST_LOOKED_AT = 5000


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


class JobSearch:
    """How far a search through a service's jobs, newest first, has come, and where it ends. One thread
    searches; any thread may read, and `stop`.

    The search ends after `within_s` and after `most` jobs. With `is_patient`, it does so only once a job was
    found.
    """

    def __init__(
        self, within_s: float | None = None, *, most: int = MOST_LOOKED_AT, is_patient: bool = False
    ) -> None:
        self.seen = 0
        self.oldest: float | None = None
        self.is_cut = False
        self._ends_at = None if within_s is None else time.monotonic() + within_s
        self._most = most
        self._is_patient = is_patient
        self._is_stopped = False

    def note(self, jobs: int, oldest: float | None) -> None:
        """A page of the listing was read; `oldest` is when its last job was made."""
        self.seen += jobs
        self.oldest = oldest or self.oldest

    def is_over(self, *, has_found: bool) -> bool:
        """Whether no other page is to be read."""
        late = self._ends_at is not None and time.monotonic() > self._ends_at
        limited = (late or self.seen >= self._most) and not (self._is_patient and not has_found)
        self.is_cut = limited or self._is_stopped
        return self.is_cut

    def stop(self) -> None:
        """End the search after its present page."""
        self._is_stopped = True


class JobFilter(NamedTuple):
    """The conditions for a listing of the service's jobs. The service applies them where it can.

    `search` limits how far the listing is read; the answer then has the jobs that were found up to there.
    """

    states: frozenset[State] = frozenset()
    experiment: str = ""
    tag: str = ""
    user: str = ""
    name_end: str = ""
    most: int = 50
    search: JobSearch | None = None


class JobService(Protocol):
    """The jobs of a service, also those that gofer did not start. Any thread may call.

    Targets with the same `service_name` have the same jobs.
    """

    service_name: str

    def jobs(self, wanted: JobFilter) -> Sequence[ServiceJob]:
        """The jobs that match, newest first, at most `most`."""

    def job(self, name: str) -> ServiceJob | None:
        """The job of that name; None when the service has no such job."""


# The largest piece of a log that is read at once: a log may be larger than the memory of this machine.
NATIVE_PIECE = 4 << 20


class LogService(Protocol):
    """The logs that a service keeps of its jobs."""

    def native_logs(self, job: str) -> Sequence[str]:
        """The names of the job's log files, the most useful first; empty for an unknown job."""

    def native_size(self, job: str, name: str) -> int | None:
        """The present size of a log; None when there is no log of that name."""

    def read_native(self, job: str, name: str, start: int) -> bytes:
        """NATIVE_PIECE bytes from `start`, by a range request; fewer bytes, or none, only at the end of the
        log.
        """


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


class Capabilities(NamedTuple):
    """What gofer must know of a target without asking its cluster. `Kind.capabilities` makes it from the
    options of the target, and `Backend.capabilities` is the same value.

    `sees_environment`: the nodes have the files and the environment of the submitting shell, and so its
    Python packages. `has_ends_in_folder`: the cluster knows that a run ended, but not how, and the records in
    the folder of the run decide. `decides_grace`: the service decides how long a cancelled run may take to
    end, so `grace_s` has no effect. `shows_credentials`: readers of the store can read the credentials of a
    run, so they are valid no longer than needed.

    `elastic`: the number of nodes of a run may change while it runs. `holds_runs`: the cluster can hold a run
    until other runs of the target have ended. `mounts_folders`: the service mounts folders of Azure Blob
    Storage by itself, with options of its own.

    `patience_s`: how long the cluster may not answer before its runs are lost. `time_limit_s`: the time limit
    of jobs that set none. `machines`: the machines of the target, if each may have a store of its own.
    `node_identity`: the identity for gofer.objects with which nodes open stores, in place of a signature of
    gofer. `profile`: the Azure login that the options name. `image`: the image that the options name;
    `is_image_wrapped`: the cluster needs images that `gofer image wrap` made. `shell_on_request`: a shell can
    be opened only beside a run that was submitted with one.
    """

    sees_environment: bool = False
    has_ends_in_folder: bool = False
    decides_grace: bool = False
    shows_credentials: bool = False
    elastic: bool = False
    holds_runs: bool = False
    mounts_folders: bool = False
    patience_s: float = math.inf
    time_limit_s: float | None = None
    machines: tuple[str, ...] = ()
    node_identity: IdentitySpec | None = None
    profile: str | None = None
    image: str | None = None
    is_image_wrapped: bool = False
    shell_on_request: bool = False


class Backend(ABC):
    """One target of one kind."""

    kind: str
    """The word in `kind:` of the target in gofer.yaml."""

    capabilities: Capabilities = Capabilities()

    # -- what every backend has

    @abstractmethod
    def lay_out(self, job: Job) -> Layout:
        """How the job is spread over nodes and processes; CheckFailed when this target can never run it. May
        ask the cluster what its nodes have.
        """

    def prepare(self, record: RunRecord) -> Any:
        """Read what `plan` needs and neither the options nor the record says, such as the GPUs of this
        machine or a key file.
        """
        return None

    @abstractmethod
    def plan(self, record: RunRecord, prepared: Any) -> Plan:
        """Make the plan from what `prepare` returned. Pure: no I/O, and equal plans for equal arguments."""

    @abstractmethod
    def keep_secrets(self, run_id: str, values: RunSecrets) -> None:
        """Store `values` where the run can read them until it ends, and no other user can.

        Called before the run is recorded.
        """

    @abstractmethod
    def submit(self, plan: Plan) -> None:
        """Send the plan.

        Idempotent: the run id is the key, so a second call with the same plan changes nothing.
        """

    @abstractmethod
    def observe(self, runs: Sequence[RunRef]) -> Mapping[str, Observation]:
        """Ask the cluster once about all runs.

        Runs that the cluster does not know are left out of the answer.
        """

    @abstractmethod
    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        """Ask the cluster to end runs, gracefully and then by force. Ended and unknown runs are ignored."""

    # -- what some backends have, on the way to the cluster

    def select_machines(self, job: Job, layout: Layout) -> str:
        """The machines for the job in this shape, separated by commas, on a target that has several. gofer
        records them before it sends the run. CheckFailed when no machine has what the job asks for.
        """
        return ""

    def hidden_gpus(self) -> int:
        """The GPUs of a node that a run which asks for none does not see; 0 where the number is not known."""
        return 0

    def run_credentials(self) -> Sequence[RunCredential]:
        """The credentials of the cluster, not of gofer, that end and on which runs depend."""
        return ()

    def drop_abandoned_secrets(self, is_recorded: Callable[[str], bool]) -> None:  # noqa: B027
        """Remove the secrets of submissions that were killed before the run was recorded."""

    def remove_secrets(self, run_id: str) -> None:  # noqa: B027
        """Remove the secrets of a run or array that will never be sent, wherever they are. Idempotent."""

    def clear_up(self, runs: Sequence[RunRef]) -> None:  # noqa: B027
        """Remove what was kept for these runs alone, such as secrets. Their folders prove that they have
        ended, although the cluster does not say so; after an end that `observe` reports, `observe` does the
        same. Idempotent.
        """

    # -- what some backends can report

    def waiting(self, run: RunRef) -> Waiting | None:
        """Why a run waits; None when it does not wait, or when the cluster does not know it."""
        return Waiting()

    def watch(self, runs: Sequence[RunRef], is_over: Callable[[], bool]) -> Iterator[None] | None:
        """Yields after each change of the runs that the cluster reports, until `is_over`; the next `observe`
        then asks the cluster. Blocks, in a thread of its own. None for a cluster that reports nothing.
        """
        return None

    def stalled(self) -> str | None:
        """Why no process of gofer works on the queue, in words that say what to do; None when one does, and
        for a queue that needs none.
        """
        return None

    def describe(self) -> Mapping[str, object]:
        """What the cluster has and what is free, as plain JSON values, for `gofer target show`."""
        return {}

    def nodes(self) -> Sequence[NodeFacts] | None:
        """All nodes of the target, sorted by name; None for a kind that cannot list them."""
        return None

    def images(self) -> Sequence[ServiceImage] | None:
        """The images that the service offers, those of a kind together; None for a service that lists
        none.
        """
        return None

    def shell(
        self, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> Sequence[str] | None:
        """The local command line that opens a shell beside the run, or that runs `command` there; None for a
        kind without shells.

        `node` counts from 0; without it, the first node of the run is used. `terminal` says that the user has
        a terminal, which the command line then passes on. Raises CheckFailed when the run does not run on
        that node.
        """
        return None

    def portal(self, run: RunRef | None = None) -> str | None:
        """The address of the web page of a run, or of the target; None for a service without pages."""
        return None

    def job_service(self) -> JobService | None:
        """The jobs of the service; None where all jobs are gofer's."""
        return None

    def log_service(self) -> LogService | None:
        """The logs of the service; None where only gofer keeps logs."""
        return None

    def kept_places(self) -> Sequence[KeptPlace]:
        """Where gofer keeps things on the cluster that `gofer prune` can remove. Does no I/O."""
        return ()
