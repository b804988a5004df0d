"""The launch contract, as a table."""

from __future__ import annotations

import pytest

from gofer.core.launch import (
    RANK_VARIABLES,
    Contract,
    NodePlace,
    argument_environment,
    contract_of,
    inherited,
    rank_environment,
)
from gofer.core.node_request import decode


def place(node: int, *, nodes: int = 2, procs: int = 4, gpus: list[int] | None = None) -> NodePlace:
    hosts = [f"host{number}" for number in range(nodes)]
    return NodePlace(
        run_id="r1", attempt=3, node=node, nodes=nodes, procs=procs, gpus=gpus, hosts=hosts, port=29500
    )


def test_ranks_are_counted_through_the_nodes() -> None:
    assert [place(node).ranks for node in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_every_variable_of_one_rank() -> None:
    assert rank_environment(place(1, gpus=[4, 5, 6, 7]), 6, Contract()) == {
        "RANK": "6",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "2",
        "LOCAL_WORLD_SIZE": "4",
        "NODE_RANK": "1",
        "NNODES": "2",
        "MASTER_ADDR": "host0",
        "MASTER_PORT": "29500",
        "MASTER_IP": "host0",
        "OMPI_COMM_WORLD_RANK": "6",
        "OMPI_COMM_WORLD_SIZE": "8",
        "OMPI_COMM_WORLD_LOCAL_RANK": "2",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
        "AZ_BATCH_HOST_LIST": "host0,host1",
        "GOFER_RUN_ID": "r1",
        "GOFER_ATTEMPT": "3",
        "GOFER_RANK": "6",
        "GOFER_NODE_RANK": "1",
        "CUDA_VISIBLE_DEVICES": "4,5,6,7",
    }


def test_gpus_are_named_only_where_gofer_assigns_them() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in rank_environment(place(0), 0, Contract())
    assert rank_environment(place(0, gpus=[]), 0, Contract())["CUDA_VISIBLE_DEVICES"] == ""


ALL = set(RANK_VARIABLES)
NODES = {"NODE_RANK", "NNODES", "MASTER_ADDR", "MASTER_PORT"}
HOSTS = {"MASTER_IP", "AZ_BATCH_HOST_LIST"}


@pytest.mark.parametrize(
    ("mode", "single", "shape", "names"),
    [
        ("auto", False, (1, 1), set()),
        ("auto", True, (1, 1), set()),
        ("auto", True, (2, 1), NODES),
        ("auto", False, (2, 1), ALL),  # a GPU a node, and a process a GPU: two ranks
        ("auto", False, (1, 4), ALL),
        ("never", False, (2, 4), set()),
        ("always", True, (1, 1), ALL),
        ("mpirun", False, (1, 1), HOSTS),
        ("mpirun", True, (2, 1), ALL),
        ("mpirun", False, (1, 4), ALL),
    ],
)
def test_which_rank_variables_a_run_has(
    mode: str, single: bool, shape: tuple[int, int], names: set[str]
) -> None:
    nodes, procs = shape
    found = rank_environment(place(0, nodes=nodes, procs=procs), 0, Contract(mode, single))
    assert set(found) - names == {"GOFER_RUN_ID", "GOFER_ATTEMPT", "GOFER_RANK", "GOFER_NODE_RANK"}
    assert names <= set(found)


def test_a_request_of_an_older_gofer_is_read_as_auto() -> None:
    written = {"id": "r", "multi_process": False, "rank_variables": "never"}
    assert contract_of(decode({"id": "r"})) == Contract("auto", False)
    assert contract_of(decode(written)) == Contract("never", True)


def test_a_run_takes_over_no_rank_of_the_run_that_submitted_it() -> None:
    shell = {"RANK": "3", "MASTER_ADDR": "host0", "PATH": "p", "GOFER_TARGET": "lab"}
    assert inherited(shell) == {"RANK": "3", "MASTER_ADDR": "host0", "PATH": "p"}
    assert inherited({**shell, "GOFER_RUN_ID": "r1"}) == {"PATH": "p"}


@pytest.mark.parametrize(
    ("name", "variable"), [("lr", "GOFER_ARG_LR"), ("a.b-c", "GOFER_ARG_A_B_C"), ("_x9", "GOFER_ARG__X9")]
)
def test_a_rows_values_become_variables(name: str, variable: str) -> None:
    assert argument_environment({name: "a  b"}) == {variable: "a  b"}
