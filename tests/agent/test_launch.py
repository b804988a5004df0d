"""The launch contract, as a table."""

from __future__ import annotations

import pytest

from gofer.agent.launch import Place, argument_environment, rank_environment


def place(node: int, *, nodes: int = 2, procs: int = 4, gpus: list[int] | None = None) -> Place:
    hosts = [f"host{number}" for number in range(nodes)]
    return Place(
        run_id="r1", attempt=3, node=node, nodes=nodes, procs=procs, gpus=gpus, hosts=hosts, port=29500
    )


def test_ranks_are_counted_through_the_nodes() -> None:
    assert [place(node).ranks for node in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_every_variable_of_one_rank() -> None:
    assert rank_environment(place(1, gpus=[4, 5, 6, 7]), 6) == {
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
        "CUDA_VISIBLE_DEVICES": "4,5,6,7",
    }


def test_gpus_are_named_only_where_gofer_assigns_them() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in rank_environment(place(0), 0)
    assert rank_environment(place(0, gpus=[]), 0)["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    ("name", "variable"), [("lr", "GOFER_ARG_LR"), ("a.b-c", "GOFER_ARG_A_B_C"), ("_x9", "GOFER_ARG__X9")]
)
def test_a_rows_values_become_variables(name: str, variable: str) -> None:
    assert argument_environment({name: "a  b"}) == {variable: "a  b"}
