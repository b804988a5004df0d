"""The calls that a machine answers, as protocols. gofer.transport.machine gives the implementations.

In this process, a call is a method call on `LocalQueue`, `LocalSlurm`, `LocalFiles` or `LocalKeptItems`. Over
SSH, gofer.remote.calls carries the method's name, its arguments and its result. So arguments and results are
JSON values, NamedTuples of them, or bytes; at most one argument is bytes.

A method blocks and raises its errors unchanged: OSError, ObjectsError, SlurmError, sqlite3.Error. Over SSH,
RemoteError stands for a class that gofer.remote.calls does not know, and Unreachable says that the machine
did not answer. After Unreachable, the call may have been carried out: a caller whose request must not happen
twice first checks whether it has happened.

Types are written as Python 3.8 can evaluate them, because a node decodes arguments by them.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Protocol, Tuple, TypedDict

from gofer.core.gpus import GpuReading
from gofer.core.outcome import EndFields
from gofer.core.prune import KeptItem
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.queue.database import QueueStatus, RequestFields
from gofer.queue.waiting_reasons import WaitingFacts

# A value in a request in place of a number of GPUs: as many as the driver of the machine reports.
ALL_GPUS = -1
# A run of a request: its id, its row in an array, the arguments of the row.
RequestedRun = Tuple[str, Optional[int], Optional[Dict[str, str]]]
# Runs of a Slurm site by name, with the rows in question. None: a run that is not an array, or a whole array.
RowsOfRuns = Dict[str, Optional[List[int]]]


class MachineFacts(NamedTuple):
    """What a machine has and what its queue uses.

    `counts` are the open runs by state. `usage` are the GPUs as gofer.core.gpus.sample describes them.
    `queue_home` is the full path of the queue's folder.
    """

    host: str
    cpus: int
    cpus_busy: int
    memory_mib: int
    gpus: int
    gpus_busy: int
    usage: List[GpuReading]
    counts: Dict[str, int]
    queue_home: str


class QueueAnswer(NamedTuple):
    """The state of runs, and whether a supervisor had to be started for them. `waiting` has what some of the
    waiting ones wait for, by run id.
    """

    started_supervisor: bool
    runs: List[QueueStatus]
    waiting: Dict[str, WaitingFacts]


class SupervisorStatus(NamedTuple):
    """Whether a supervisor answers, and its process: the id and the state, None without such a process."""

    answers: bool
    pid: Optional[int]
    process_state: Optional[str]


class LogEnd(NamedTuple):
    """The path of a log and its last line, empty for an empty log."""

    path: str
    line: str


class QueueApi(Protocol):
    """The queue of a machine, in one folder there: `~` and `{host}` in its path are expanded on the machine.

    `add`, `observe` and `cancel` make sure that a supervisor runs if there is work for it.
    """

    def facts(self) -> MachineFacts:
        """What the machine has and what the queue uses."""

    def keep_secrets(self, run_id: str, values: RunSecrets, inherit: bool) -> None:
        """Keep a run's secrets until it ends. With `inherit`, the run's variables are added to those of a
        login on this machine.
        """

    def abandoned_secrets(self) -> Dict[str, str]:
        """The secrets of submitters that died before they confirmed them, as path → run id."""

    def remove_secrets(self, paths: List[str]) -> None:
        """Remove secrets that `abandoned_secrets` named. Idempotent."""

    def add(self, body: RequestFields, runs: List[RequestedRun]) -> bool:
        """Queue a request with all its runs. Idempotent by ids. Whether a supervisor had to be started."""

    def observe(self, ids: List[str]) -> QueueAnswer:
        """The runs with these ids or of these groups."""

    def cancel(self, ids: List[str], grace_s: Optional[float]) -> bool:
        """Ask for the end of runs or groups; None means the grace of the job. Whether a supervisor had to be
        started.
        """

    def log_end(self) -> LogEnd:
        """The end of the supervisors' log."""

    def supervisor(self) -> SupervisorStatus:
        """Whether a supervisor works on the queue."""

    def waiting(self, run_id: str) -> Optional[WaitingFacts]:
        """What a run waits for; None when it does not wait."""

    def shell(
        self, run_id: str, command: List[str], terminal: bool, node: Optional[int]
    ) -> Optional[List[str]]:
        """The command that opens a shell beside a run; None when the run, or that node of the run, has no
        living process on the machine.
        """


class SlurmNodeFacts(NamedTuple):
    """A node of a Slurm site; `state` is Slurm's word, `gpus` are the numbers by type."""

    name: str
    state: str
    partitions: List[str]
    cpus: int
    cpus_used: int
    memory_mib: int
    memory_used_mib: int
    gpus: Dict[str, int]
    gpus_used: Dict[str, int]
    features: List[str]


class QueuedJob(NamedTuple):
    """A job in Slurm's queue. `ahead` is the number of jobs before it in its partition; times are seconds
    since the epoch.
    """

    job: str
    state: str
    reason: str
    partition: str
    estimate: Optional[float]
    since: Optional[float]
    priority: Optional[float]
    ahead: Optional[int]


class SlurmJob(TypedDict):
    """A row of a job, from the queue or from accounting. `name` is the id of the run. `exit` is known only to
    accounting, `reason` only to the queue.
    """

    name: str
    job: str
    raw: str
    row: Optional[int]
    state: str
    reason: str
    start: Optional[float]
    end: Optional[float]
    nodes: str
    exit: Optional[str]


class StoppedSlurmJob(SlurmJob, total=False):
    """A job of the queue. Where Slurm cancelled it, `stopped` says whether a person wanted that, and
    `after` names the runs of which one did not succeed.
    """

    stopped: bool
    after: List[str]


class GoneSlurmRun(TypedDict):
    """What is known of a run that the queue does not have: what its handoff folder says of the submission,
    the rows that were asked for, those to be stopped, and the entries of accounting.
    """

    job: Optional[str]
    rejected: Optional[str]
    rows: List[Optional[int]]
    stopped: List[Optional[int]]
    book: List[SlurmJob]


class SlurmAnswer(TypedDict):
    """`jobs` are all jobs of gofer in Slurm's queue, one for each row. `gone` are, by name, the runs in
    question that the queue does not have. `ends` are the recorded ends of runs, by id.
    """

    jobs: List[StoppedSlurmJob]
    gone: Dict[str, GoneSlurmRun]
    ends: Dict[str, EndFields]


class FreeAndTotal(TypedDict):
    free: int
    total: int


class SlurmSurvey(TypedDict):
    """What a site has: nodes and jobs by state, GPUs by type, the limits of this user by Slurm's words."""

    nodes: Dict[str, int]
    gpus: Dict[str, FreeAndTotal]
    cpus: FreeAndTotal
    queue: Dict[str, int]
    mine: Dict[str, int]
    limits: List[Dict[str, str]]


class SlurmApi(Protocol):
    """Slurm, asked from its login node; handoff folders and agents are in one shared folder of the site.

    Errors: SlurmError (refused), SlurmSilent (no answer), FileNotFoundError (Slurm is not installed).
    """

    def agent(self, mark: str) -> Optional[str]:
        """The folder of the agent of that mark; None when the site does not have it."""

    def install_agent(self, mark: str, data: bytes) -> None:
        """Unpack the agent of that mark. Idempotent."""

    def submit(
        self, agent: str, request: Dict[str, object], script: str, private: bytes, timeout_s: float
    ) -> Optional[str]:
        """Submit a run exactly once; the job's number. None when the agent must be installed first.

        JobRejected when Slurm will never accept the job. A lost connection does not interrupt the submission.
        """

    def status(self, runs: RowsOfRuns, store: Optional[str]) -> SlurmAnswer:
        """The state of runs. Blocking; SlurmError when Slurm cannot be asked."""

    def cancel(self, runs: RowsOfRuns, grace_s: Optional[float]) -> None:
        """Ask for the end of runs. Idempotent. A lost connection does not interrupt it."""

    def queued_job(self, request_id: str, row: Optional[int]) -> Optional[QueuedJob]:
        """The job of a run; None when Slurm's queue does not have it."""

    def nodes(self, partition: Optional[str]) -> List[SlurmNodeFacts]:
        """The nodes of the site, or of a partition."""

    def survey(self, partition: Optional[str], account: Optional[str]) -> SlurmSurvey:
        """Facts for a person who chooses where to run. Facts that the site does not report are left out."""

    def kept_items(self) -> List[KeptItem]:
        """The handoff folders of runs, output that could not be uploaded, and working copies."""

    def remove_items(self, whole: List[str], stubs: List[str], unsent: List[str], copies: List[str]) -> None:
        """Remove handoff folders completely or down to their stubs, unsent output, and working copies."""


class StoredFile(NamedTuple):
    """An object of a store; `modified` is seconds since the epoch."""

    key: str
    size: int
    modified: float


class FilesApi(Protocol):
    """A store that is a folder of the machine. ObjectNotFound and Exists as in gofer.objects.files."""

    def find(self) -> Optional[str]:
        """The full path of the folder; None when it does not exist."""

    def make(self) -> str:
        """Make the folder; its full path. Idempotent."""

    def get(self, key: str, start: int, length: int) -> bytes:
        """At most `length` bytes from `start`; a negative start counts from the end."""

    def put(self, key: str, data: bytes, new: bool) -> None:
        """Write an object; with `new`, Exists when there is one."""

    def compare_and_swap(self, key: str, old_md5: Optional[str], data: bytes) -> bool:
        """Write `data` if the object has that MD5; with None, if there is no object. Whether it did so."""

    def head(self, key: str) -> Optional[StoredFile]:
        """An object; None when there is none."""

    def list_page(self, prefix: str, after: str) -> List[StoredFile]:
        """The next objects under `prefix` after the key `after`, in key order; empty after the last."""

    def list_folders(self, prefix: str) -> List[str]:
        """The names of the folders directly under `prefix`, in order."""

    def delete(self, keys: List[str]) -> int:
        """Delete objects; how many there were."""

    def copy(self, source: str, destination: str) -> None:
        """Copy an object on the machine."""

    def append(self, key: str, data: bytes) -> None:
        """Append to an object; create it if needed."""

    def stage(self, token: str, data: bytes) -> None:
        """Append to the bytes that `commit` makes an object."""

    def commit(self, token: str, key: str) -> None:
        """Make the staged bytes an object, in one step."""

    def unstage(self, token: str) -> None:
        """Drop staged bytes. Idempotent."""

    def remove_empty_folders(self, prefix: str) -> None:
        """Remove the empty folders at and below `prefix`. Idempotent."""


class KeptItemsApi(Protocol):
    """What gofer keeps on a machine and no run needs, in a queue's folder and in gofer's own folder there."""

    def find(self, unused_since: float, agent: str) -> List[KeptItem]:
        """What `gofer prune` may remove.

        From the queue's folder: old copies of folders, output that could not be uploaded, working copies.
        From gofer's own folder: agents other than `agent`. From both: built packages.
        """

    def remove(self, items: List[Tuple[str, str]], unused_since: float, agent: str) -> List[Tuple[str, str]]:
        """Remove items, each a kind and a name; those that are gone. Each is checked again right before its
        removal. An OSError of one item is raised after the others have been removed.
        """
