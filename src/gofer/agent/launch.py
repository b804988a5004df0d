"""The launch contract: what every process of a run finds in its environment, whatever started it. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where one node of one attempt stands among the others. The first of `hosts` is where ranks meet.

    `gpus` is None where gofer does not assign GPUs.
    """

    run_id: str
    attempt: int
    node: int
    nodes: int
    procs: int
    gpus: list[int] | None
    hosts: list[str]
    port: int

    @property
    def ranks(self) -> list[int]:
        return [self.node * self.procs + local for local in range(self.procs)]


def rank_environment(place: Place, rank: int) -> dict[str, str]:
    """The variables of one rank; CUDA_VISIBLE_DEVICES only where gofer assigns GPUs."""
    size, local = place.nodes * place.procs, rank - place.node * place.procs
    facts: dict[str, Any] = {
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
        "GOFER_RUN_ID": place.run_id,
        "GOFER_ATTEMPT": place.attempt,
    }
    if place.gpus is not None:
        facts["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in place.gpus)
    return {name: str(value) for name, value in facts.items()}


def argument_environment(values: dict[str, str]) -> dict[str, str]:
    """An array row's values as GOFER_ARG_<NAME>."""
    return {
        "GOFER_ARG_" + "".join(c if c.isalnum() else "_" for c in name).upper(): value
        for name, value in values.items()
    }
