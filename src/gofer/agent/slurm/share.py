"""Which part of which run a program in a job is: from Slurm's variables and the run's request."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from gofer.agent.launch import Place

# Below the ports that systems give out by themselves, so that nobody holds it by chance.
_FIRST_PORT = 12000
_PORTS = 20000


class Share(NamedTuple):
    """`job` is what `sbatch` said, `raw` the job's own number, which a row of an array has besides."""

    run_id: str
    row: int | None
    attempt: int
    node: int
    nodes: int
    job: str
    raw: str
    step: str
    hosts: list[str]

    def place(self, request: Mapping[str, Any]) -> Place:
        """GPUs are Slurm's to hand out. All nodes come to the same port by themselves."""
        return Place(
            run_id=self.run_id,
            attempt=self.attempt,
            node=self.node,
            nodes=self.nodes,
            procs=request["layout"]["procs_per_node"],
            gpus=None,
            hosts=self.hosts,
            port=_FIRST_PORT + int(self.raw) % _PORTS,
        )


def read_share(environ: Mapping[str, str], request: Mapping[str, Any]) -> Share:
    """KeyError outside of a job."""
    raw = environ["SLURM_JOB_ID"]
    index = environ.get("SLURM_ARRAY_TASK_ID")
    row = None if index is None or not request["rows"] else int(index)
    nodes = int(request["layout"]["nodes"])
    hosts = environ.get("GOFER_HOSTS", "").split() or [environ.get("SLURMD_NODENAME", "localhost")] * nodes
    return Share(
        run_id=request["id"] if row is None else f"{request['id']}-{row}",
        row=row,
        attempt=int(environ.get("SLURM_RESTART_COUNT") or 0) + 1,
        node=int(environ.get("SLURM_PROCID") or 0),
        nodes=nodes,
        job=environ.get("SLURM_ARRAY_JOB_ID") or raw,
        raw=raw,
        step=environ.get("SLURM_STEP_ID") or "",
        hosts=hosts,
    )


# Facts of the step that started the agent: one task on each node, which is not how the ranks stand.
_OF_THE_STEP = (
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"),
    *("SLURM_TASKS_PER_NODE", "SLURM_TASK_PID", "SLURM_GTIDS", "SLURM_DISTRIBUTION"),
    *("SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST", "SLURM_SRUN_COMM_PORT", "SLURM_MPI_TYPE"),
)
_PREFIXES = ("GOFER_", "SLURM_STEP", "PMI_", "PMIX_", "OMPI_", "SLURM_UMASK", "SLURM_PRIO_PROCESS")


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What Slurm and the site give to the command. Ranks stand as the launch contract says, not as tasks."""
    return {
        name: value
        for name, value in environ.items()
        if name not in _OF_THE_STEP and not name.startswith(_PREFIXES)
    }


def row_values(request: Mapping[str, Any], row: int | None) -> dict[str, str]:
    return {} if row is None else dict(zip(request["columns"], request["rows"][row]))
