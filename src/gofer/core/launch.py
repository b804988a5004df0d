"""The launch contract: which variables every process of a run finds in its environment.

Pure. `rank_environment` alone decides the variables of ranks, for every backend and every launcher.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional

from gofer.core.node_request import CodeFields, NodeRequest

# The values of `rank_variables:` of a job. Imported ACT and Philly targets have MPIRUN.
AUTO = "auto"
ALWAYS = "always"
NEVER = "never"
MPIRUN = "mpirun"

_NODE_VARIABLES = ("NODE_RANK", "NNODES", "MASTER_ADDR", "MASTER_PORT")
_HOST_VARIABLES = ("MASTER_IP", "AZ_BATCH_HOST_LIST")
# All variables that the contract may set, in addition to GOFER_* and CUDA_VISIBLE_DEVICES.
RANK_VARIABLES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    *_NODE_VARIABLES,
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    *("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    *_HOST_VARIABLES,
)


class ElasticPlace(NamedTuple):
    """What the ranks of a run with a changing number of nodes learn of it: its bounds, how often the command
    is tried again, and a folder of the node for requests to the ranks.
    """

    min_nodes: int
    max_nodes: int
    retries: int
    requests: str


class NodePlace(NamedTuple):
    """The place of one node among the nodes of an attempt. Ranks connect to the first of `hosts`.

    `gpus` is None where gofer does not assign GPUs, and `elastic` for a fixed number of nodes. With
    `first_node_only` only the first node has ranks, and the other nodes wait until it has ended.
    """

    run_id: str
    attempt: int
    node: int
    nodes: int
    procs: int
    gpus: list[int] | None
    hosts: list[str]
    port: int
    first_node_only: bool = False
    elastic: Optional[ElasticPlace] = None

    @property
    def ranks(self) -> list[int]:
        if self.first_node_only and self.node:
            return []
        return [self.first_rank + local for local in range(self.procs)]

    @property
    def first_rank(self) -> int:
        return self.node * self.procs

    @property
    def world_size(self) -> int:
        return self.procs if self.first_node_only else self.nodes * self.procs


class Contract(NamedTuple):
    """What a job says about its rank variables. `single`: the job has one process per node (`--single`)."""

    mode: str = AUTO
    single: bool = False


def contract_of(request: NodeRequest) -> Contract:
    """The contract of a run, from its request."""
    is_single = not request.multi_process or request.launcher == "torchrun"
    return Contract(request.rank_variables or AUTO, is_single)


def rank_variables(place: NodePlace, contract: Contract) -> tuple[str, ...]:
    """The names of the rank variables that the processes of this run get.

    By default a run with one rank gets none: a program would take them as a sign of a distributed run.
    """
    has_peers = place.world_size > 1 or place.elastic is not None
    if contract.mode == NEVER:
        return ()
    if contract.mode == ALWAYS:
        return RANK_VARIABLES
    if contract.mode == MPIRUN:
        return RANK_VARIABLES if has_peers else _HOST_VARIABLES
    if not has_peers:
        return ()
    return _NODE_VARIABLES if contract.single else RANK_VARIABLES


def rank_environment(place: NodePlace, rank: int, contract: Contract) -> dict[str, str]:
    """The variables of one rank. CUDA_VISIBLE_DEVICES is included only where gofer assigns GPUs."""
    size, local = place.world_size, rank - place.node * place.procs
    facts: dict[str, str | int] = {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": local,
        "LOCAL_WORLD_SIZE": place.procs,
        "NODE_RANK": place.node,
        "NNODES": place.nodes,
        "MASTER_ADDR": place.hosts[0],
        "MASTER_PORT": place.port,
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_SIZE": size,
        "OMPI_COMM_WORLD_LOCAL_RANK": local,
        "OMPI_COMM_WORLD_LOCAL_SIZE": place.procs,
        "MASTER_IP": place.hosts[0],
        "AZ_BATCH_HOST_LIST": ",".join(place.hosts),
    }
    found = {name: facts[name] for name in rank_variables(place, contract)}
    found.update(GOFER_RUN_ID=place.run_id, GOFER_ATTEMPT=place.attempt)
    found.update(GOFER_RANK=rank, GOFER_NODE_RANK=place.node)
    if place.gpus is not None:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in place.gpus)
    if place.elastic is not None:
        found.update(_elastic_variables(place, place.elastic, rank))
    return {name: str(value) for name, value in found.items()}


def _elastic_variables(place: NodePlace, elastic: ElasticPlace, rank: int) -> Dict[str, Any]:
    """What torchrun sets too, so that code and libraries that know torchrun find what they expect. They start
    no processes of their own then. The agents have no store for ranks to connect to.
    """
    return {
        "GROUP_RANK": place.node,
        "GROUP_WORLD_SIZE": place.nodes,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": place.world_size,
        "ROLE_NAME": "default",
        "TORCHELASTIC_RESTART_COUNT": place.attempt - 1,
        "TORCHELASTIC_MAX_RESTARTS": elastic.retries,
        "TORCHELASTIC_RUN_ID": place.run_id,
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
        "GOFER_GENERATION": place.attempt,
        "GOFER_MIN_NODES": elastic.min_nodes,
        "GOFER_MAX_NODES": elastic.max_nodes,
        "GOFER_REQUESTS": elastic.requests,
    }


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a run inherits from the shell that submitted it: all except gofer's own.

    A shell inside a run has the rank variables of that run, so these are left out as well.
    """
    of_a_run = RANK_VARIABLES if "GOFER_RUN_ID" in environ else ()
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith("GOFER_") and name not in of_a_run
    }


def argument_environment(values: dict[str, str]) -> dict[str, str]:
    """The values of an array's row as GOFER_ARG_<NAME>. SLURM_ARRAY_TASK_ID, the row number in a Slurm
    script, is also given under its own name.
    """
    own = {
        "GOFER_ARG_" + "".join(c if c.isalnum() else "_" for c in name).upper(): value
        for name, value in values.items()
    }
    return {**own, **{name: value for name, value in values.items() if name == "SLURM_ARRAY_TASK_ID"}}


def default_variables(origin: CodeFields) -> Dict[str, str]:
    """Variables that are set unless the person set them, even to an empty value.

    PYTHONUNBUFFERED makes Python write each line at once, which it does not do by default when the output is
    a file. So the log of a run that is stopped has the last lines.
    """
    found = {"PYTHONUNBUFFERED": "1", **(origin.get("versions") or {})}
    commit = origin.get("commit")
    if commit:
        found["WANDB_GIT_COMMIT"] = str(commit)
    return found


def commit_variables(origin: CodeFields) -> Dict[str, str]:
    """What git says about the code: commit, branch, changes. A fact that is unknown gets no variable."""
    dirty = origin.get("dirty")
    found = {
        "GOFER_COMMIT": origin.get("commit"),
        "GOFER_BRANCH": origin.get("branch"),
        "GOFER_DIRTY": None if dirty is None else str(int(dirty)),
    }
    return {name: str(value) for name, value in found.items() if value is not None}
