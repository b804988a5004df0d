"""`launcher: mpi`: a real mpirun starts the processes, as the service's does; the agents start the ranks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from azureml.node.service import Job, Service, until

SOURCE = Path(__file__).parents[2] / "local" / "allreduce.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The MPI program, compiled."""
    binary = tmp_path_factory.mktemp("mpi") / "allreduce"
    subprocess.run(["mpicc", "-o", str(binary), str(SOURCE)], check=True, timeout=100)
    return str(binary)


def start(job: Job, world: int) -> None:
    """One mpirun for all: nodes are as many of its processes as a node has, on this machine."""
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    argv = ["mpirun", *root, "--bind-to", "none", "--map-by", "slot", "--host", f"localhost:{world}"]
    argv += ["-np", str(world), job.python, "-E", "-s", str(job.zip), str(job.room)]
    extra = {"AZ_BATCH_MASTER_NODE": "127.0.0.1:6107", "AZ_BATCH_HOST_LIST": ""}
    job.started = [job.spawn(0, argv, extra)]


def test_ranks_meet_by_the_services_mpirun(service: Service, program: str) -> None:
    job = service.job([program], procs=2, launcher="mpi")
    start(job, 2)
    (done,) = job.wait()
    assert done.status == 0, done.err
    assert [job.log(rank=rank) for rank in range(2)] == [
        f"mpi rank {rank} of 2 sum 1, RANK {rank} LOCAL_RANK {rank} NODE_RANK 0 "
        f"OMPI_COMM_WORLD_LOCAL_RANK {rank}\n"
        for rank in range(2)
    ]
    assert job.end()["state"] == "succeeded"


def test_two_nodes_meet_by_the_services_mpirun(service: Service, program: str) -> None:
    job = service.job([program], nodes=2, procs=2, launcher="mpi")
    start(job, 4)
    (done,) = job.wait()
    assert done.status == 0, done.err
    logs = [job.log(rank=rank, node=rank // 2) for rank in range(4)]
    assert [log[:22] for log in logs] == [f"mpi rank {rank} of 4 sum 6," for rank in range(4)]
    assert "NODE_RANK 1" in logs[3]


def test_the_rank_that_fails_is_recorded_before_mpirun_ends_all(service: Service, program: str) -> None:
    job = service.job([program, "exit", "1"], procs=2, launcher="mpi")
    start(job, 2)
    (done,) = job.wait()
    assert done.status != 0
    until(lambda: job.has("ends.jsonl"), "the end")  # the agent outlives an mpirun that gives up
    end = job.end()
    assert (end["state"], end["exit_code"], end["detail"]) == ("failed", 5, "rank 1 exited with 5")


def test_ranks_that_know_mpi_by_its_variables_alone_are_tried_again(service: Service) -> None:
    script = 'echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $MASTER_PORT; test "$GOFER_ATTEMPT$RANK" != 11'
    job = service.job(["sh", "-c", script], procs=2, launcher="mpi", retries=1)
    start(job, 2)
    (done,) = job.wait()
    assert done.status == 0, done.err
    assert [job.log(attempt, rank=1) for attempt in (1, 2)] == ["1/2 6107\n", "1/2 6108\n"]


def test_the_jobs_own_variables_go_before_those_of_mpiruns_processes(service: Service) -> None:
    job = service.job(["sh", "-c", "echo $SITE $PMIX_RANK"], procs=2, launcher="mpi", env={"SITE": "job"})
    job.environ["SITE"] = "image"
    start(job, 2)
    (done,) = job.wait()
    assert done.status == 0, done.err
    assert [job.log(rank=rank) for rank in range(2)] == ["job 0\n", "job 1\n"]


def test_a_signal_to_end(service: Service) -> None:
    job = service.job(["sh", "-c", "echo up; sleep 300"], procs=2, launcher="mpi")
    start(job, 2)
    until(lambda: job.log(rank=1) == "up\n", "the ranks are up")
    job.terminate()
    job.wait()
    until(lambda: job.has("attempts/1/node-0/exit.json"), "the record")
    assert job.exit_record()["reason"] == "preempted"
    assert not job.has("ends.jsonl")


def test_a_run_that_has_ended_lets_all_processes_go(service: Service) -> None:
    job = service.job(["true"], procs=3, launcher="mpi")
    for _ in range(2):
        start(job, 3)
        (done,) = job.wait()
        assert done.status == 0, done.err
    assert len(job.end()["attempts"]) == 1
