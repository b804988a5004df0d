"""Which part of which run the agent on a node of a service makes. Pure."""

from __future__ import annotations

from typing import List, Mapping, NamedTuple, Optional

from gofer.core.node_request import NodeRequest

# Prefixes of the variables that mpirun sets in its processes; ranks get them from their own placeholder.
OF_MPIRUN = ("OMPI_", "PMIX_", "PMI_", "ORTE_", "PRTE_", "HYDRA_", "I_MPI_", "MPIR_", "MV2_")


class NodeShare(NamedTuple):
    """One process's part of a run.

    `master` is the host to which ranks connect, and `hosts` are all nodes in order, as far as the service
    names them. `port` is None where any port will do. `local` is the number of the process on the node if
    the service's mpirun started it, else None. `gpus` are the GPUs of the node that the run asked for; None
    where the service has already chosen them.

    `most_grace_s` is the most that ranks get to end after SIGTERM; None where the service waits for as long
    as the run asks. `replaces_nodes`: the service replaces a lost node while the others go on; otherwise it
    starts the whole job again. `keeps_secrets`: the service itself holds the secrets of the run, not the
    store.
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
    most_grace_s: Optional[float] = None
    replaces_nodes: bool = False
    keeps_secrets: bool = False


def own_gpus(environ: Mapping[str, str], count: int) -> Optional[List[int]]:
    """The GPUs to use. The run has the whole node, which may have more GPUs than the run asked for."""
    return None if not count or environ.get("CUDA_VISIBLE_DEVICES") else list(range(count))


def row_values(request: NodeRequest, row: Optional[int]) -> dict[str, str]:
    """The values of the row of an array, by column; empty for a single run."""
    return {} if row is None else dict(zip(request.columns, request.rows[row]))
