"""Which part of which run a process is, from the variables of Azure ML and the run's request. Pure.

In a PyTorch job the service starts one process per node, in an Mpi job one per rank (`local` is its number on
the node). In a job on one node it starts one process, without variables about nodes.
"""

from __future__ import annotations

from typing import List, Mapping, Optional

from gofer.core.json_text import parse_count
from gofer.core.launch import RANK_VARIABLES
from gofer.core.node_request import NodeRequest
from gofer.node.service.share import OF_MPIRUN, NodeShare, own_gpus

# The port that people commonly use for ranks on this service. It is used where the service names none.
_PORT = 6105
# The service does not say how long it waits after SIGTERM; ranks get at most this much of that time.
_MOST_GRACE_S = 20.0


def read_share(environ: Mapping[str, str], request: NodeRequest, row: Optional[int]) -> NodeShare:
    """The part of this process; ValueError when the service's variables do not fit the request."""
    nodes = request.layout.nodes
    procs = request.layout.procs_per_node
    is_mpi = request.launcher == "mpi" and "OMPI_COMM_WORLD_RANK" in environ
    rank = int(environ["OMPI_COMM_WORLD_RANK"]) if is_mpi else 0
    node = rank // procs if is_mpi else _node(environ) if nodes > 1 else 0
    if not 0 <= node < nodes:
        raise ValueError(f"the service says that this is node {node}, and the run has {nodes}")
    master, port = _master(environ)
    return NodeShare(
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
        gpus=own_gpus(environ, request.layout.gpus_per_node),
        most_grace_s=_MOST_GRACE_S,
    )


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
