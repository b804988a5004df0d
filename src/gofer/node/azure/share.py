"""Which part of which run a process is: from the variables that Azure ML gave it and the run's request. Pure.

Of a PyTorch job the service starts one process a node, of an Mpi job one for each rank (`local` is which),
and of a job on one node just one, which it tells nothing.
"""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional

from gofer.core.launch import RANK_VARIABLES
from gofer.core.numerals import parse_count

# What people give to rendezvous on this service where it names no port.
_PORT = 6105


class AzureShare(NamedTuple):
    """`master` is where ranks meet and `hosts` are all nodes, in order, as far as the service says; `port` is
    None where any will do. `local` is None where the service started one process on the node. `gpus` are
    those of the node that the run asked for, None where the service has chosen them already.
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


def read_share(environ: Mapping[str, str], request: Mapping[str, Any], row: Optional[int]) -> AzureShare:
    """ValueError when the service's word and the request do not go together."""
    nodes = int(request["layout"]["nodes"])
    procs = int(request["layout"]["procs_per_node"])
    is_mpi = request.get("launcher") == "mpi" and "OMPI_COMM_WORLD_RANK" in environ
    rank = int(environ["OMPI_COMM_WORLD_RANK"]) if is_mpi else 0
    node = rank // procs if is_mpi else _node(environ) if nodes > 1 else 0
    if not 0 <= node < nodes:
        raise ValueError(f"the service says that this is node {node}, and the run has {nodes}")
    master, port = _master(environ)
    return AzureShare(
        run_id=request["id"] if row is None else f"{request['id']}-{row}",
        request_id=request["id"],
        row=row,
        node=node,
        nodes=nodes,
        procs=procs,
        local=rank % procs if is_mpi else None,
        master=master,
        port=port or (_PORT if nodes > 1 else None),
        hosts=_hosts(environ, nodes),
        gpus=_gpus(environ, int(request["layout"]["gpus_per_node"])),
    )


def _gpus(environ: Mapping[str, str], count: int) -> Optional[List[int]]:
    """The whole node is the run's, and it may have more of them than were asked for."""
    return None if not count or environ.get("CUDA_VISIBLE_DEVICES") else list(range(count))


def _node(environ: Mapping[str, str]) -> int:
    for name in ("NODE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "AZUREML_NODE_RANK"):
        number = parse_count(environ.get(name, ""))
        if number is not None:
            return number
    raise ValueError("the service does not say which node this is: there is no NODE_RANK")


def _master(environ: Mapping[str, str]) -> tuple[Optional[str], Optional[int]]:
    """The host where ranks meet and its port, each None where the service does not say it."""
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
    """Empty unless the service names every node."""
    names = [name.strip() for name in environ.get("AZ_BATCH_HOST_LIST", "").split(",")]
    return names if all(names) and len(names) == nodes else []


# Facts of the process that the service started, which is not how the ranks stand. The service's own list of
# hosts stays, as do all its AZ_BATCH_* and AZUREML_* variables that do not number processes.
_OF_THE_PROCESS = (
    *(name for name in RANK_VARIABLES if not name.startswith("AZ_BATCH_")),
    "GROUP_RANK",
    *("AZUREML_NODE_RANK", "AZUREML_PROCESS_RANK", "AZUREML_PROCESS_NAME"),
)
# What mpirun says to the processes that it starts; ranks have it from their own.
OF_MPIRUN = ("OMPI_", "PMIX_", "PMI_", "ORTE_", "PRTE_", "HYDRA_", "I_MPI_", "MPIR_", "MV2_")


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the service and the image give to the command. Ranks stand as the launch contract says."""
    return {
        name: value
        for name, value in environ.items()
        if name not in _OF_THE_PROCESS and not name.startswith(("GOFER_", *OF_MPIRUN)) and not _is_ours(name)
    }


def _is_ours(name: str) -> bool:
    """The inputs that bring the agent and its request are of no use to the command."""
    return name.upper().startswith(("AZURE_ML_INPUT_GOFER_", "AZUREML_DATAREFERENCE_GOFER_"))


def row_values(request: Mapping[str, Any], row: Optional[int]) -> dict[str, str]:
    return {} if row is None else dict(zip(request["columns"], request["rows"][row]))
