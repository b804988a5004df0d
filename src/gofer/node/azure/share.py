"""Which part of which run a process is, from the variables of Azure ML and the run's request. Pure.

In a PyTorch job the service starts one process per node, in an Mpi job one per rank (`local` is its number on
the node). In a job on one node it starts one process, without variables about nodes.
"""

from __future__ import annotations

from typing import List, Mapping, NamedTuple, Optional

from gofer.core.json_text import parse_count
from gofer.core.launch import RANK_VARIABLES
from gofer.core.node_request import NodeRequest

# The port that people commonly use for ranks on this service. It is used where the service names none.
_PORT = 6105


class AzureShare(NamedTuple):
    """One process's part of a run.

    `master` is the host to which ranks connect, and `hosts` are all nodes in order, as far as the service
    names them. `port` is None where any port will do. `local` is None where the service started one process
    on the node. `gpus` are the GPUs of the node that the run asked for; None where the service has already
    chosen them.
    """

    run_id: str
    request_id: str
    row: Optional[int]
    node: int
    nodes: int
    procs: int
    local: Optional[int]
    master: Optional[str]
    port: Optional[int]
    hosts: List[str]
    gpus: Optional[List[int]]


def read_share(environ: Mapping[str, str], request: NodeRequest, row: Optional[int]) -> AzureShare:
    """The part of this process; ValueError when the service's variables do not fit the request."""
    nodes = request.layout.nodes
    procs = request.layout.procs_per_node
    is_mpi = request.launcher == "mpi" and "OMPI_COMM_WORLD_RANK" in environ
    rank = int(environ["OMPI_COMM_WORLD_RANK"]) if is_mpi else 0
    node = rank // procs if is_mpi else _node(environ) if nodes > 1 else 0
    if not 0 <= node < nodes:
        raise ValueError(f"the service says that this is node {node}, and the run has {nodes}")
    master, port = _master(environ)
    return AzureShare(
        run_id=request.id if row is None else f"{request.id}-{row}",
        request_id=request.id,
        row=row,
        node=node,
        nodes=nodes,
        procs=procs,
        local=rank % procs if is_mpi else None,
        master=master,
        port=port or (_PORT if nodes > 1 else None),
        hosts=_hosts(environ, nodes),
        gpus=_gpus(environ, request.layout.gpus_per_node),
    )


def _gpus(environ: Mapping[str, str], count: int) -> Optional[List[int]]:
    """The GPUs to use. The run has the whole node, which may have more GPUs than the run asked for."""
    return None if not count or environ.get("CUDA_VISIBLE_DEVICES") else list(range(count))


def _node(environ: Mapping[str, str]) -> int:
    for name in ("NODE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "AZUREML_NODE_RANK"):
        number = parse_count(environ.get(name, ""))
        if number is not None:
            return number
    raise ValueError("the service does not say which node this is: there is no NODE_RANK")


def _master(environ: Mapping[str, str]) -> tuple[Optional[str], Optional[int]]:
    """The host and port to which ranks connect, each None where the service does not name it."""
    host, _, port = environ.get("AZ_BATCH_MASTER_NODE", "").partition(":")
    found = (
        environ.get("MASTER_ADDR")
        or host
        or environ.get("AZ_BATCHAI_MPI_MASTER_NODE")
        or environ.get("MASTER_IP")
        or environ.get("AZ_BATCHAI_JOB_MASTER_NODE_IP")
    )
    text = environ.get("MASTER_PORT") or port
    return found or None, parse_count(text)


def _hosts(environ: Mapping[str, str], nodes: int) -> List[str]:
    """The names of all nodes; empty unless the service names every node."""
    names = [name.strip() for name in environ.get("AZ_BATCH_HOST_LIST", "").split(",")]
    return names if all(names) and len(names) == nodes else []


# Variables about the process that the service started, which are wrong for the ranks. The service's list of
# hosts stays, and so do all AZ_BATCH_* and AZUREML_* variables that do not number processes.
_OF_THE_PROCESS = (
    *(name for name in RANK_VARIABLES if not name.startswith("AZ_BATCH_")),
    "GROUP_RANK",
    *("AZUREML_NODE_RANK", "AZUREML_PROCESS_RANK", "AZUREML_PROCESS_NAME"),
)
# Prefixes of the variables that mpirun sets in its processes; ranks get them from their own placeholder.
OF_MPIRUN = ("OMPI_", "PMIX_", "PMI_", "ORTE_", "PRTE_", "HYDRA_", "I_MPI_", "MPIR_", "MV2_")


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the service and the image that the command gets. The launch contract sets the rank
    variables.
    """
    return {
        name: value
        for name, value in environ.items()
        if name not in _OF_THE_PROCESS and not name.startswith(("GOFER_", *OF_MPIRUN)) and not _is_ours(name)
    }


def _is_ours(name: str) -> bool:
    """Whether the variable names an input with gofer's agent or request, which the command does not need."""
    return name.upper().startswith(("AZURE_ML_INPUT_GOFER_", "AZUREML_DATAREFERENCE_GOFER_"))


def row_values(request: NodeRequest, row: Optional[int]) -> dict[str, str]:
    return {} if row is None else dict(zip(request.columns, request.rows[row]))
