"""What a node is given to do its part of a run: the request, typed, for every kind of cluster.

The submitting side writes the request as JSON (gofer.backends.node_request). An older or a newer gofer may
have written it: fields that are missing get their defaults, and fields that are not known are ignored.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypedDict


class CodeFields(TypedDict, total=False):
    """A gofer.model.run.CodeOrigin as JSON. Fields that are the default may be missing."""

    folder: str
    commit: Optional[str]
    branch: Optional[str]
    dirty: Optional[bool]
    file_times: bool
    environments: Sequence[str]
    imports: Sequence[str]
    versions: Dict[str, str]
    git: bool
    secret_files: Sequence[str]


class FunctionFields(TypedDict):
    """A gofer.model.job.JobFunction as JSON."""

    name: str
    sha256: str
    size: int
    python: str


class FolderFields(TypedDict, total=False):
    """A gofer.model.job.JobFolder as JSON. Fields that are the default may be missing."""

    store: str
    path: str
    mode: str
    here: Optional[str]
    read_only: bool
    options: Sequence[str]


class DependencyFields(TypedDict, total=False):
    """A gofer.model.job.RunDependency as JSON. Without `ok`, the run has to succeed."""

    run: str
    ok: bool
    placement: str


class RestoreFields(TypedDict, total=False):
    """A gofer.model.run.RestoreFrom as JSON."""

    run: str
    rows: Optional[Sequence[int]]


class NodeLayout(NamedTuple):
    """The shape of one attempt, as in gofer.model.layout.Layout."""

    nodes: int = 1
    gpus_per_node: int = 0
    procs_per_node: int = 1
    cpus_per_proc: int = 1
    first_node_only: bool = False
    unseen_gpus: int = 0


class NodeRequest(NamedTuple):
    """One run or a whole array. Row i of an array has the values `rows[i]` of `columns`; the queue of a
    machine has the rows in its database.

    `store` is the folder that the run writes to; None where an uploader sends the files. `memory_mib` is for
    each node, 0 where the job asks for none.

    For a queue, `remote` is the URL of the store where `store` is not the store itself. `span` has the
    numbers of the nodes on this machine when others are elsewhere. `leased` GPUs are shared with other
    queues. The fields from `scratch` on are for clusters with queues of their own. `elastic` is a
    gofer.model.job.ElasticJob where the number of nodes changes; `layout.nodes` is the largest number then.
    """

    id: str
    layout: NodeLayout
    target: str = ""
    snapshot: Optional[str] = None
    code: Optional[CodeFields] = None
    workdir: str = ""
    stdin: Optional[int] = None
    function: Optional[FunctionFields] = None
    folders: Mapping[str, FolderFields] = {}
    command: Sequence[str] = ()
    launcher: str = ""
    multi_process: bool = True
    procs: Optional[int] = None
    command_launcher: Optional[str] = None
    rank_variables: str = ""
    env: Mapping[str, str] = {}
    setup: Optional[str] = None
    packages: str = "none"
    wheels: Optional[str] = None
    tags: Mapping[str, str] = {}
    sync: Sequence[str] = ()
    keep_bytes: Optional[int] = None
    keep_group_bytes: Optional[int] = None
    keep_most_bytes: Optional[int] = None
    outputs: Sequence[str] = ()
    memory_mib: int = 0
    time_limit_s: Optional[float] = None
    grace_s: float = 0.0
    retries: int = 0
    retry_on: Sequence[str] = ()
    restore_from: Optional[RestoreFields] = None
    after: Sequence[DependencyFields] = ()
    parent: Optional[str] = None
    store: Optional[str] = None
    remote: Optional[str] = None
    span: Optional[List[int]] = None
    gpus: int = 0
    leased: bool = False
    block: int = 1
    priority: int = 0
    scratch: Optional[str] = None
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    name: str = ""
    sbatch: Optional[Sequence[str]] = None
    batch_signal: Optional[Tuple[str, float]] = None
    passes_signals: bool = False
    kill_wait_s: float = 0.0
    elastic: Optional[Dict[str, Any]] = None

    def encode(self) -> Dict[str, object]:
        """The request as plain values, for `decode`."""
        return {**self._asdict(), "layout": self.layout._asdict()}


def decode(request: Mapping[str, Any]) -> NodeRequest:
    """The request. KeyError without `id`."""
    known = {name: request[name] for name in NodeRequest._fields if name in request}
    layout = request.get("layout") or {}
    shape = NodeLayout(**{name: layout[name] for name in NodeLayout._fields if name in layout})
    return NodeRequest(**{**known, "id": request["id"], "layout": shape})
