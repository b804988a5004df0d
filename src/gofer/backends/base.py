"""The contract of a backend: plan, submit, observe, cancel; and what some can do besides.

`plan` is pure. The others do I/O, block, and are idempotent, so that a crash or a lost answer is repaired by
calling again. Vendor errors are wrapped in the BackendError family.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

from gofer.core.secrets.run_secrets import Private
from gofer.core.states import State
from gofer.model.job import Job
from gofer.model.layout import Layout
from gofer.model.run import Observation, RunRecord
from gofer.objects.facts import ObjectInfo


class Plan(Protocol):
    """The exact request a backend would send. Holds no secret, so it may be printed and kept."""

    @property
    def record(self) -> RunRecord:
        """The run it is the plan of."""

    def render(self) -> str:
        """The script, manifest or request body as `--dry-run` prints it."""


class RunRef(NamedTuple):
    """A run to ask about: a single run has neither group nor row, a whole array only its `size`."""

    id: str
    group: str | None = None
    row: int | None = None
    size: int = 0


class Backend(Protocol):
    """One target of one kind."""

    @property
    def kind(self) -> str:
        """The word in `kind:` of the target."""

    def lay_out(self, job: Job) -> Layout:
        """The shape the job takes here; CheckFailed when this target can never run it."""

    def plan(self, record: RunRecord) -> Plan:
        """Pure: no I/O, the same answer for the same record."""

    def submit(self, plan: Plan) -> None:
        """Send the plan. The run id is the key: sending twice is sending once."""

    def observe(self, runs: Sequence[RunRef]) -> Mapping[str, Observation]:
        """One batched question. A run the cluster does not know is left out of the answer."""

    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        """Ask for the end of runs: gracefully, then firmly. Ended or unknown runs are passed over."""


@runtime_checkable
class HidesGpus(Protocol):
    """A backend on which a run that asks for no GPU sees none, though the nodes have some."""

    @property
    def gpus_per_node(self) -> int:
        """GPUs that a node of the target has; 0 for none, or where nobody says it."""


@runtime_checkable
class Chooses(Protocol):
    """A backend of several machines, to one or more of which a run is given."""

    def choose(self, layout: Layout) -> str:
        """The machines for a run of this shape, between commas. Recorded before any machine hears of it."""


@runtime_checkable
class Seals(Protocol):
    """A backend that can hold private values for a run until it ends."""

    def seal(self, run_id: str, values: Private) -> None:
        """Keep `values` where the run will find them and nobody else can read them; before the record."""

    def drop_seals(self, is_recorded: Callable[[str], bool]) -> None:
        """Remove what submissions sealed that were killed before the run was recorded."""


@runtime_checkable
class Unseals(Protocol):
    """A backend that goes on holding private values when a submission failed, to send the run later."""

    def unseal(self, run_id: str) -> None:
        """Remove them, wherever they are: the run, or whole array, will never be sent. Idempotent."""


@runtime_checkable
class Identifies(Protocol):
    """A backend whose nodes may have an identity of their own before stores of the same service."""

    @property
    def node_identity(self) -> dict[str, str | None] | None:
        """By which they open the stores (see gofer.objects); None where they are lent a signature."""


class RunCredential(NamedTuple):
    """One thing that opens something for a run: `what` names it without giving it away, `mend` is what to do
    about its end. Those that never end are not listed.
    """

    what: str
    ends_at: float
    mend: str


@runtime_checkable
class Holds(Protocol):
    """A backend whose cluster opens things for runs by credentials that gofer did not give it."""

    def held(self) -> list[RunCredential]:
        """Those that end, as far as the cluster says it; asks it."""


@runtime_checkable
class SeesEnvironment(Protocol):
    """A backend whose nodes may see the environment of the submitting shell, and so its Python packages."""

    @property
    def sees_environment(self) -> bool:
        """Whether they do: unless a job says otherwise, no packages are built for it then."""


@runtime_checkable
class ReadsFolder(Protocol):
    """A backend whose cluster knows that a run ended and not how: the run's folder is believed first."""

    @property
    def reads_folder(self) -> bool:
        """Whether it is so."""


@runtime_checkable
class DecidesGrace(Protocol):
    """A backend whose service decides how long a cancelled run may take to end, whatever `grace_s` says."""

    @property
    def decides_grace(self) -> bool:
        """Whether it is so."""


@runtime_checkable
class Stalls(Protocol):
    """A backend whose queue is worked on by a process that may be missing."""

    def stalled(self) -> str | None:
        """Why nobody works on the queue now, in words that say what to do; None when somebody does."""


@runtime_checkable
class Describes(Protocol):
    """A backend that can say what it has and what is free."""

    def describe(self) -> Mapping[str, object]:
        """Facts for `gofer target show`, plain JSON values."""


class Waiting(NamedTuple):
    """Why a run waits: `why` in words a person can act on, how many runs are ahead of it where that is known,
    and when the cluster's own estimate has it start (seconds since the epoch), which is no promise.
    """

    why: str
    ahead: int | None = None
    estimate: float | None = None


@runtime_checkable
class Waits(Protocol):
    """A backend that can say why a run waits."""

    def waiting(self, run: RunRef) -> Waiting | None:
        """None when the run does not wait, or the cluster does not know it."""


class NodeFacts(NamedTuple):
    """One node of a cluster: `state` is free, mixed, busy or down, in the cluster's own words in `detail`."""

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
        """All of them, in order of their names."""


@runtime_checkable
class Shells(Protocol):
    """A backend that can open a shell where a run runs."""

    def shell(
        self, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> Sequence[str]:
        """The words to run here for a shell beside the run's command, or for `command` there.

        On the run's node of that number, from 0, or else on the first where it runs. CheckFailed when the run
        does not run there. With `terminal`, the person has one and it is passed on.
        """


class ServiceJob(NamedTuple):
    """A job of the service, whoever started it. `command` is one line of shell: of a job of gofer's what the
    person gave, of any other what the service runs.

    Times are seconds since the epoch; `error` is the service's own word of why it failed. `gpus` is None for
    a job on another compute than the target's, whose nodes the target says nothing of.
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
    """What a listing of the service's jobs is narrowed to; the service does the narrowing where it can.

    With `within_s` the answer is what was found by then, of the newest.
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
    """A backend whose service also has jobs that gofer did not start. Any thread may ask.

    Targets with the same `service_name` have the same jobs.
    """

    service_name: str

    def jobs(self, wanted: JobFilter) -> Sequence[ServiceJob]:
        """Newest first, as many as `most`."""

    def job(self, name: str) -> ServiceJob | None:
        """None when the service has none of that name."""


# The longest piece of a log that is read at once: one may be longer than the memory there is.
NATIVE_PIECE = 4 << 20


@runtime_checkable
class NativeLogs(Protocol):
    """A backend whose service keeps logs of its own."""

    def native_logs(self, job: str) -> Sequence[str]:
        """The names of the files there are now, the one to show first in front; none for unknown jobs."""

    def native_size(self, job: str, name: str) -> int | None:
        """How long it is now; None when there is none of that name."""

    def read_native(self, job: str, name: str, start: int) -> bytes:
        """NATIVE_PIECE bytes from `start`, by a range request; fewer, or none, only at its present end."""


@runtime_checkable
class HasPortal(Protocol):
    """A backend with web pages."""

    def portal(self, run: RunRef | None = None) -> str:
        """The address of the page of a run, or of the target itself."""


class Prunable(NamedTuple):
    """Something that is kept and that nobody needs any more. `kind` and `name` tell it from all else in its
    place; `at` is when it was last of use (seconds since the epoch), `why` says why it is not needed.
    """

    place: str
    kind: str
    name: str
    size: int
    at: float
    why: str


class RunEnd(NamedTuple):
    """When a run, or the last of a group, ended. `is_recorded` says that its own record in the store says so,
    and so whoever finds the run anew finds it ended.
    """

    at: float
    is_recorded: bool = False


class KeptObjects(Protocol):
    """What pruning needs of a store: see gofer.storage.base."""

    def get(self, key: str) -> bytes: ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]: ...

    def delete(self, keys: Iterable[str]) -> int: ...


class PruneBounds(NamedTuple):
    """What may go: of runs, those that ended before `before`; of what no run speaks for, what was last used
    before `unused_since`. `whole` are runs and groups that go as a whole, with what they could not send.

    `ended` says which of these runs and groups have ended; one that has not, or of which nothing is known,
    is left out. With `proven`, their own records are read too. Any thread may ask. `store` is the target's.
    """

    before: float
    unused_since: float
    ended: Callable[[Collection[str], bool], Mapping[str, RunEnd]]
    store: KeptObjects
    whole: frozenset[str] = frozenset()


class KeptPlace(Protocol):
    """A place where gofer keeps things. Both verbs ask it, block, and may be called again at any time."""

    @property
    def name(self) -> str:
        """What a person calls it; no two places have the same."""

    def prunable(self, bounds: PruneBounds) -> Sequence[Prunable]:
        """What could go now. Nothing is changed."""

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> Sequence[Prunable]:
        """Remove these, each looked at once more before it goes; what is gone now."""


@runtime_checkable
class Prunes(Protocol):
    """A backend that keeps things which no run needs any more."""

    def kept_places(self) -> Sequence[KeptPlace]:
        """Where; nobody is asked."""
