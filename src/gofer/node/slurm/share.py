"""Which part of which run a program in a job is, from Slurm's variables and the run's request. Pure."""

from __future__ import annotations

from typing import Mapping, NamedTuple

from gofer.core.launch import RANK_VARIABLES, NodePlace
from gofer.core.node_request import NodeRequest

# These ports are below the range that systems assign automatically, so they are rarely in use.
_FIRST_PORT = 12000
_PORTS = 20000


class SlurmShare(NamedTuple):
    """One program's part of a run. `job` is the number that `sbatch` printed. `raw` is the job's own number,
    which differs from `job` for a row of an array.
    """

    run_id: str
    row: int | None
    attempt: int
    node: int
    nodes: int
    job: str
    raw: str
    step: str
    hosts: list[str]
    hides_gpus: bool = False

    @property
    def port(self) -> int:
        """The port for ranks. It is computed from the job number, so that all nodes use the same one."""
        return _FIRST_PORT + int(self.raw) % _PORTS

    @property
    def service_id(self) -> str:
        """The number of the job as Slurm's programs print and read it: `1234`, or `1234_5` for a row."""
        return self.job if self.row is None else f"{self.job}_{self.row}"

    def place(self, request: NodeRequest) -> NodePlace:
        """The place of this node. Slurm assigns the GPUs. With `hides_gpus` it assigned none, and the command
        sees none, also on a site whose nodes show all GPUs to every job.
        """
        return NodePlace(
            run_id=self.run_id,
            attempt=self.attempt,
            node=self.node,
            nodes=self.nodes,
            procs=request.layout.procs_per_node,
            gpus=[] if self.hides_gpus else None,
            hosts=self.hosts,
            port=self.port,
            first_node_only=request.layout.first_node_only,
        )


def read_share(environ: Mapping[str, str], request: NodeRequest) -> SlurmShare:
    """The part of this process; KeyError outside a job."""
    raw = environ["SLURM_JOB_ID"]
    index = environ.get("SLURM_ARRAY_TASK_ID")
    row = None if index is None or not request.rows else int(index)
    nodes = request.layout.nodes
    hosts = environ.get("GOFER_HOSTS", "").split() or [environ.get("SLURMD_NODENAME", "localhost")] * nodes
    has_gpus = any(environ.get(name) for name in _OF_GPUS)
    return SlurmShare(
        run_id=request.id if row is None else f"{request.id}-{row}",
        row=row,
        attempt=int(environ.get("SLURM_RESTART_COUNT") or 0) + 1,
        node=int(environ.get("SLURM_PROCID") or 0),
        nodes=nodes,
        job=environ.get("SLURM_ARRAY_JOB_ID") or raw,
        raw=raw,
        step=environ.get("SLURM_STEP_ID") or "",
        hosts=hosts,
        hides_gpus=bool(request.layout.unseen_gpus) and not has_gpus,
    )


# Slurm sets these in a job to which it assigned GPUs, also by options that gofer does not know.
_OF_GPUS = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS")
# Variables about Slurm's tasks. Ranks get those of the launch contract; programs would prefer these if both
# were set.
_OF_TASKS = (
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"),
    *("SLURM_TASKS_PER_NODE", "SLURM_TASK_PID", "SLURM_GTIDS", "SLURM_PRIO_PROCESS"),
)
# Variables that differ between nodes. The batch script has those of the first node only.
_OF_NODES = (
    *("SLURM_NODEID", "SLURM_CPUS_ON_NODE", "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS"),
    *("SLURM_TOPOLOGY_ADDR", "SLURM_TMPDIR"),
)
_PREFIXES = ("GOFER_", "SLURM_", "PMI_", "PMIX_", "OMPI_")


def own_environment(environ: Mapping[str, str], *, is_batch: bool = False) -> dict[str, str]:
    """The variables of Slurm and of the site that the command gets.

    Slurm's variables are those of the batch script, which passes them on in GOFER_SLURM. An `srun` in the run
    reads them, and those of the agent's own step would mislead it. A batch script, or `srun` itself, gets all
    of them (`is_batch`).
    """
    lines = environ.get("GOFER_SLURM", "").splitlines()
    batch = dict(line.split("=", 1) for line in lines if "=" in line)
    batch.pop("SLURM_OPEN_MODE", None)  # gofer set this for the output of the job script
    if is_batch:
        return {**{name: environ[name] for name in environ if not name.startswith(_PREFIXES)}, **batch}
    return {
        **{name: value for name, value in environ.items() if _is_of_the_site(name)},
        **{name: value for name, value in batch.items() if name not in (*_OF_TASKS, *_OF_NODES)},
        **{name: environ[name] for name in _OF_NODES if name in environ},
    }


def _is_of_the_site(name: str) -> bool:
    return name not in RANK_VARIABLES and not name.startswith(_PREFIXES)


def row_values(request: NodeRequest, row: int | None) -> dict[str, str]:
    return {} if row is None else dict(zip(request.columns, request.rows[row]))
