"""What to run, before anything is known of where."""

from __future__ import annotations

import msgspec

from gofer.core.command.command_launcher import SPANNING
from gofer.core.states import RETRIED_BY_DEFAULT, Reason
from gofer.model.bounds import MOST_ROWS, Count, Seconds
from gofer.text import parse_size


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What a job asks for. `gpus` counts the whole run; `procs` and `memory`, a size, are per node, `cpus`
    per process. `gpu_type` is a word in the names of the GPUs: `a100`.
    """

    gpus: Count = 0
    nodes: Count | None = None
    procs: Count | None = None
    cpus: Count | None = None
    memory: str | None = None
    gpu_type: str | None = None

    @property
    def memory_mib(self) -> int:
        """The memory of each node in MiB, rounded up; 0 where the job does not ask for any."""
        return 0 if self.memory is None else max(-(-parse_size(self.memory) // 2**20), 1)


class JobFolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A mapped folder of a run: a path in the store at the URL `store`, and how it comes to `./<name>`.

    With the mode `link` it is the person's own folder, `here`, on the machine that the run is for. A
    `read_only` one is lent for reading alone, and a mount of it cannot be written to. `options` are flags of
    `rclone mount` without their dashes: see gofer.model.mount_options.
    """

    store: str
    path: str
    mode: str
    here: str | None = None
    read_only: bool = False
    options: tuple[str, ...] = ()


class RunDependency(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """A run, or group of runs, that has to end before another one starts. With `ok` it has to succeed, and
    the other is cancelled if it does not. `placement` is that of its record.
    """

    run: str
    ok: bool = True
    placement: str = ""


class JobFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A Python function that was sent in place of a script. `sha256` and `size` are those of its object in
    the run's folder, and `python` is the version, such as 3.11, that can load it.
    """

    name: str
    sha256: str
    size: Count
    python: str


class ElasticJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """How the number of nodes of a run may change; the fields are those of gofer.node.elastic.ElasticRules.

    Files that fit a pattern of `checkpoint` are checkpoints; without patterns, the usual names are.
    """

    min_nodes: Count
    max_nodes: Count
    join: str = "checkpoint"
    join_every_s: Seconds = 300.0
    join_patience_s: Seconds | None = 900.0
    settle_s: Seconds = 10.0
    checkpoint: tuple[str, ...] = ()


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One thing to run, in `workdir` inside its code folder.

    Values of `env` may be references such as `${secret:NAME}`, and are kept as references. Outputs that fit
    a pattern of `sync` go to the store while the run runs, all others at its end; without `sync`, the
    target decides: all of them where nodes may be taken back, else none. `keep` is how much is kept of what
    the command writes beside its code, `none` or a size; files that fit a pattern of `outputs` always are.
    `keep_group` is the same for all rows of a group, `keep_most` for a run that passes `keep` where the disk
    of its node goes with it.
    `folders` are by the names they have beside the code. `sbatch` is None unless the command is a Slurm batch
    script, which starts once, on the first node; then it holds the script's options for `sbatch`, by their
    long names.
    `command_launcher` names the launcher that the command itself is, such as `torchrun`. `include` are
    patterns, from `workdir`, of ignored files that go along with the code.
    `packages` is None where nobody chose: the target decides, see gofer.node.packages. `stdin` is the length
    in bytes of the standard input that was sent along, which lies in the run's folder. `function` stands
    for `command[1]`. `shell`: the run is there to be entered, so a target that opens shells
    only on request gets the request. `after` are runs of the same target that have to end first. `code` is
    the URL of the folder in a store that the code came from; None for code of a folder of this machine.
    `ignore` are patterns of files that stay out of the code, beyond those of the settings. `elastic` is None
    for a fixed number of nodes; else `resources.nodes` is the largest. The name `.` in
    `folders` is the working copy: what the command writes beside its code goes to that place of a store.
    """

    command: tuple[str, ...]
    name: str | None = None
    resources: Resources = Resources()
    multi_process: bool = True
    rank_variables: str = "auto"
    env: dict[str, str] = {}
    setup: str | None = None
    time_limit_s: Seconds | None = None
    grace_s: Seconds = 10.0
    retries: Count = 0
    retry_on: tuple[Reason, ...] = RETRIED_BY_DEFAULT
    priority: Count = 0
    tags: dict[str, str] = {}
    sync: tuple[str, ...] | None = None
    keep: str = "2GiB"
    keep_group: str = "20GiB"
    keep_most: str = "50GiB"
    outputs: tuple[str, ...] = ()
    launcher: str = "spawn"
    command_launcher: str | None = None
    packages: str | None = None
    wheels: str | None = None
    workdir: str = "."
    folders: dict[str, JobFolder] = {}
    sbatch: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()
    stdin: int | None = None
    function: JobFunction | None = None
    shell: bool = False
    after: tuple[RunDependency, ...] = ()
    code: str | None = None
    ignore: tuple[str, ...] = ()
    elastic: ElasticJob | None = None

    @property
    def starts_once(self) -> bool:
        """Whether the command starts on the first node alone, since it reaches the others by itself."""
        return self.sbatch is not None or self.command_launcher in SPANNING


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many runs of one job: `{column}` in the command is replaced by the row's value.

    ValueError when a row has not one value for each column, or there are more than MOST_ROWS.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.rows) > MOST_ROWS:
            raise ValueError(f"{len(self.rows):,} rows, and {MOST_ROWS:,} are the most")
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row has not {len(self.columns)} values, one for each column")
