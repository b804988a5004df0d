"""What the service starts for a job: a process for each node and rank, and the variables each finds. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from simulators.azure.capacity import nodes_of
from simulators.azure.jobs import SimulatedJob
from simulators.azure.messages import Json, user_error

_REFERENCE = re.compile(r"\$\{\{\s*(inputs|outputs|search_space)\.([A-Za-z0-9_]+)\s*\}\}")


@dataclass(frozen=True)
class Process:
    """One process: which node it is on, its number in the job and on the node, and its launch variables."""

    node: int
    rank: int
    local_rank: int
    variables: dict[str, str]


def processes(job: SimulatedJob, addresses: list[str], port: int) -> list[Process]:
    """Every process of the job, by node and local rank."""
    distribution = job.properties.get("distribution") or {}
    kind = str(distribution.get("distributionType") or "").lower()
    per_node = int(distribution.get("processCountPerInstance") or 1) if kind in ("pytorch", "mpi") else 1
    nodes = nodes_of(job)
    made = []
    for node in range(nodes):
        for local in range(per_node):
            rank = node * per_node + local
            place = _Place(node, nodes, rank, local, per_node)
            variables = {**_batch(addresses, node), **_launcher(kind, place, addresses[0], port)}
            made.append(Process(node, rank, local, variables))
    return made


@dataclass(frozen=True)
class _Place:
    node: int
    nodes: int
    rank: int
    local: int
    per_node: int

    @property
    def resources(self) -> int:
        return self.nodes * self.per_node


def _batch(addresses: list[str], node: int) -> dict[str, str]:
    return {
        "AZ_BATCH_HOST_LIST": ",".join(addresses),
        "AZ_BATCH_NODE_LIST": ";".join(addresses),
        "AZ_BATCHAI_JOB_MASTER_NODE_IP": addresses[0],
        "AZ_BATCH_IS_CURRENT_NODE_MASTER": "true" if node == 0 else "false",
        "AZ_BATCH_NODE_ID": f"tvmps_{node}",
    }


def _launcher(kind: str, place: _Place, master: str, port: int) -> dict[str, str]:
    if kind == "mpi":
        return {
            "OMPI_COMM_WORLD_RANK": str(place.rank),
            "OMPI_COMM_WORLD_SIZE": str(place.resources),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(place.local),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(place.per_node),
            "OMPI_COMM_WORLD_NODE_RANK": str(place.local),
            "OMPI_UNIVERSE_SIZE": str(place.resources),
            "AZ_BATCH_MASTER_NODE": f"{master}:{port}",
            "AZ_BATCHAI_MPI_MASTER_NODE": master,
        }
    if kind == "pytorch":
        return {
            "MASTER_ADDR": master,
            "MASTER_PORT": str(port),
            "RANK": str(place.rank),
            "WORLD_SIZE": str(place.resources),
            "LOCAL_RANK": str(place.local),
            "NODE_RANK": str(place.node),
        }
    return {"NODE_RANK": str(place.node)} if place.nodes > 1 else {}


def log_names(index: int, count: int, *, old: bool) -> list[str]:
    """Of a process's output: one file, in the layout of the common runtime or in the one before it."""
    if old:
        return ["azureml-logs/70_driver_log.txt" if count == 1 else f"azureml-logs/70_driver_log_{index}.txt"]
    return ["user_logs/std_log.txt" if count == 1 else f"user_logs/std_log_process_{index}.txt"]


def side_logs(*, old: bool) -> list[str]:
    """Of what the service itself says."""
    if old:
        return ["azureml-logs/55_azureml-execution-tvmps_0.txt", "azureml-logs/75_job_post-tvmps_0.txt"]
    return ["system_logs/lifecycler/lifecycler.log"]


def service_variables(job: SimulatedJob, identity: str, secret: str) -> dict[str, str]:
    """What every process of the job finds, whatever its launcher."""
    parts = job.workspace.split("/")
    return {
        "AZUREML_RUN_ID": job.name,
        "AZUREML_ROOT_RUN_ID": job.name,
        "AZUREML_EXPERIMENT_NAME": job.experiment,
        "AZUREML_ARM_SUBSCRIPTION": parts[2],
        "AZUREML_ARM_RESOURCEGROUP": parts[4],
        "AZUREML_ARM_WORKSPACE_NAME": parts[8],
        "AZUREML_ARM_PROJECT_NAME": job.experiment,
        "AZUREML_WORKSPACE_SCOPE": job.workspace,
        "AZUREML_CR_AZUREML_CONTEXT": "1",
        "IDENTITY_ENDPOINT": f"{identity}/msi/identity",
        "IDENTITY_HEADER": secret,
        "MSI_ENDPOINT": f"{identity}/msi/token",
        "MSI_SECRET": secret,
    }


def fill(text: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> str:
    """The command with its references replaced; Refused for one that names nothing."""

    def replaced(found: re.Match[str]) -> str:
        values = inputs if found[1] == "inputs" else outputs
        if found[2] not in values:
            raise user_error(f"The command refers to {found[1]}.{found[2]}, which the job does not have.")
        return values[found[2]]

    return _REFERENCE.sub(replaced, text)


def check_command(properties: Json) -> None:
    """Refused, as the service does, when the command is missing or refers to what is not there."""
    command = properties.get("command")
    if not isinstance(command, str) or not command.strip():
        raise user_error("The property 'command' is required for a job of type Command.")
    names = [dict.fromkeys(properties.get(side) or {}, "") for side in ("inputs", "outputs")]
    fill(command, *names)
