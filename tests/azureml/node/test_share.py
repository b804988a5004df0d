"""Which part of a run a process is, by the service's variables alone."""

from __future__ import annotations

from typing import Any

import pytest
from azureml.node.service import request

from gofer.core.node_request import NodeRequest, decode
from gofer.node.azure.program import read_arguments
from gofer.node.azure.share import own_environment, read_share

PYTORCH = {"NODE_RANK": "1", "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.4", "MASTER_PORT": "6105"}
MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "AZ_BATCH_MASTER_NODE": "10.0.0.4:6000",
    "AZ_BATCH_HOST_LIST": "10.0.0.4,10.0.0.5",
}


def node_request(**more: Any) -> NodeRequest:
    return decode(request(["true"], **more))


def test_one_process_a_node() -> None:
    share = read_share(PYTORCH, node_request(nodes=2, procs=4), None)
    assert (share.node, share.nodes, share.procs, share.local) == (1, 2, 4, None)
    assert (share.master, share.port, share.hosts) == ("10.0.0.4", 6105, [])


def test_one_process_a_rank() -> None:
    share = read_share(MPI, node_request(nodes=2, procs=4, launcher="mpi"), None)
    assert (share.node, share.local, share.master, share.port) == (1, 1, "10.0.0.4", 6000)
    assert share.hosts == ["10.0.0.4", "10.0.0.5"]


def test_a_run_on_one_node_gets_no_rendezvous() -> None:
    share = read_share({"RANK": "3", "NODE_RANK": "7"}, node_request(procs=2), None)
    assert (share.node, share.local, share.master, share.port) == (0, None, None, None)


@pytest.mark.parametrize(
    ("environ", "master"),
    [
        ({"AZ_BATCHAI_MPI_MASTER_NODE": "h1"}, "h1"),
        ({"MASTER_IP": "h2"}, "h2"),
        ({"AZ_BATCHAI_JOB_MASTER_NODE_IP": "h3"}, "h3"),
        ({"MASTER_ADDR": "h0", "MASTER_IP": "h2"}, "h0"),
    ],
)
def test_where_ranks_meet_is_found_under_each_of_its_names(environ: dict[str, str], master: str) -> None:
    share = read_share({"NODE_RANK": "0", **environ}, node_request(nodes=2), None)
    assert (share.master, share.port) == (master, 6105)


def test_words_of_the_service_that_do_not_fit_the_run() -> None:
    with pytest.raises(ValueError, match="node 2, and the run has 2"):
        read_share({**PYTORCH, "NODE_RANK": "2"}, node_request(nodes=2), None)
    with pytest.raises(ValueError, match="no NODE_RANK"):
        read_share({}, node_request(nodes=2), None)


def test_a_row_has_an_id_of_its_own() -> None:
    one = node_request(columns=["x"], rows=[["a"], ["b"]])
    assert read_share({}, one, 1).run_id == f"{one.id}-1"


def test_the_environment_of_the_command_has_nothing_of_the_services_process() -> None:
    given = {
        **PYTORCH,
        **MPI,
        "PMIX_RANK": "1",
        "GOFER_X": "1",
        "AZURE_ML_INPUT_gofer_agent": "/a",
        "PATH": "p",
    }
    given |= {"AZURE_ML_INPUT_DATA": "/d", "MSI_SECRET": "dummy"}
    assert set(own_environment(given)) == {
        *("AZ_BATCH_MASTER_NODE", "AZ_BATCH_HOST_LIST", "PATH"),
        *("AZURE_ML_INPUT_DATA", "MSI_SECRET"),
    }


def test_the_words_of_the_visible_command() -> None:
    arguments = read_arguments(["/room", "--row", "3", "data=/a b=c", "x.y=/z"])
    assert (arguments.handoff, arguments.row, arguments.folders) == (
        "/room",
        3,
        {"data": "/a b=c", "x.y": "/z"},
    )
    assert read_arguments(["/room"]).row is None
    with pytest.raises(ValueError, match="name=path"):
        read_arguments(["/room", "data"])


def test_the_gpus_asked_for_are_the_first_of_the_node_unless_the_service_chose() -> None:
    asked = node_request(nodes=1, procs=2)
    asked = asked._replace(layout=asked.layout._replace(gpus_per_node=2))
    assert read_share({}, asked, None).gpus == [0, 1]
    assert read_share({"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, asked, None).gpus is None
    assert read_share({}, node_request(nodes=1), None).gpus is None
