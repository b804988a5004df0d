"""Several nodes of one job: they meet in the store, fail together, and end together."""

from __future__ import annotations

import json
import os
import signal

import pytest
from azureml.node.service import Service, until

pytestmark = pytest.mark.slow


def test_two_nodes_of_four_ranks(service: Service) -> None:
    script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK/$NNODES $MASTER_ADDR"
    job = service.job(["sh", "-c", f"{script} $AZ_BATCH_HOST_LIST; echo $MASTER_PORT"], nodes=2, procs=4)
    job.environ["AZ_BATCH_HOST_LIST"] = "127.0.0.1,127.0.0.2"
    done = job.run()
    assert [one.status for one in done] == [0, 0], [one.err for one in done]
    logs = [job.log(rank=rank, node=rank // 4).splitlines() for rank in range(8)]
    assert [log[0] for log in logs] == [
        f"{rank}/8 {rank % 4}/4 {rank // 4}/2 127.0.0.1 127.0.0.1,127.0.0.2" for rank in range(8)
    ]
    assert len({log[1] for log in logs}) == 1
    assert job.end()["state"] == "succeeded"
    assert job.handoff_keys() == ["over.json", "request.json"]
    assert not [*job.objects.list_beginning(f"told/{job.id}/")]


def test_the_node_that_fails_is_named_and_the_others_are_stopped(service: Service) -> None:
    script = 'if test "$RANK" = 3; then echo no; exit 9; fi; sleep 300'
    job = service.job(["sh", "-c", script], nodes=2, procs=2)
    done = job.run()
    assert [one.status for one in done] == [9, 9], [one.err for one in done]
    end = job.end()
    assert (end["state"], end["reason"], end["exit_code"]) == ("failed", "exit-code", 9)
    assert end["detail"] == "rank 3 exited with 9"
    assert job.exit_record(node=1)["first_failure"]["rank"] == 3
    assert job.exit_record(node=0)["detail"] == "stopped because another node failed"
    assert not [*job.objects.list_beginning(f"told/{job.id}/")]


def test_a_command_on_the_first_node_only_and_the_other_waits(service: Service) -> None:
    job = service.job(["mpirun", "--version"], nodes=2, command_launcher="mpirun")
    job.request["layout"]["first_node_only"] = True
    (job.room / "request.json").write_text(json.dumps(job.request))
    done = job.run()
    assert [one.status for one in done] == [0, 0], [one.err for one in done]
    assert "Open MPI" in job.log() and job.end()["state"] == "succeeded"
    assert job.exit_record(node=1)["ranks"] == []


def test_no_handoff_object_is_rewritten(service: Service) -> None:
    """The service brings it to nodes while others are at work, and fails when a file of it is gone."""
    job = service.job(["sleep", "300"], nodes=2)
    job.start()
    until(lambda: [*job.objects.list_beginning(f"told/{job.id}/run/meet")], "the nodes talk")
    assert job.handoff_keys() == ["private.json", "request.json"]
    job.terminate()
    job.wait()


def test_both_nodes_try_again(service: Service) -> None:
    script = 'echo try $GOFER_ATTEMPT; test "$GOFER_ATTEMPT$RANK" != 11'
    job = service.job(["sh", "-c", script], nodes=2, retries=1)
    done = job.run()
    assert [one.status for one in done] == [0, 0], [one.err for one in done]
    assert [(one["number"], one["state"]) for one in job.end()["attempts"]] == [
        (1, "failed"),
        (2, "succeeded"),
    ]
    assert [job.log(2, rank=rank, node=rank) for rank in (0, 1)] == ["try 2\n", "try 2\n"]


def test_a_set_up_that_fails_on_one_node_ends_the_other(service: Service) -> None:
    job = service.job(["sleep", "300"], nodes=2, setup='test "$NODE_RANK" = 0')
    done = job.run()
    assert [one.status for one in done] == [1, 1], [one.err for one in done]
    assert (job.end()["state"], job.end()["reason"]) == ("failed", "set-up")


def test_a_signal_to_end_and_a_restart(service: Service) -> None:
    """The service pauses a job: it signals both nodes to end and starts them again later."""
    script = 'echo up; test "$GOFER_ATTEMPT" = 2 || sleep 300'
    job = service.job(["sh", "-c", script], nodes=2)
    job.start()
    until(lambda: job.log(rank=1, node=1) == "up\n" and job.log() == "up\n", "both ranks are up")
    job.terminate()
    assert [one.status for one in job.wait()] == [143, 143]
    assert not job.has("ends.jsonl")
    assert job.exit_record()["reason"] == job.exit_record(node=1)["reason"] == "preempted"
    assert "private.json" in job.handoff_keys()
    done = job.run()
    assert [one.status for one in done] == [0, 0], [one.err for one in done]
    assert [(one["number"], one["state"], one["reason"]) for one in job.end()["attempts"]] == [
        (1, "lost", "preempted"),
        (2, "succeeded", None),
    ]


def test_killed_and_started_again(service: Service) -> None:
    script = 'echo up; test "$GOFER_ATTEMPT" = 2 || sleep 300'
    job = service.job(["sh", "-c", script], nodes=2)
    job.start()
    until(lambda: job.log(rank=1, node=1) == "up\n" and job.log() == "up\n", "both ranks are up")
    job.kill()
    done = job.run()
    assert [one.status for one in done] == [0, 0], [one.err for one in done]
    assert [(one["number"], one["state"], one["reason"]) for one in job.end()["attempts"]] == [
        (1, "lost", "node-failure"),
        (2, "succeeded", None),
    ]


def test_one_node_is_started_again_alone(service: Service) -> None:
    """Node 1 is gone and comes back while node 0 still runs the attempt: the attempt is over for both."""
    script = 'echo up; test "$GOFER_ATTEMPT" = 2 || sleep 300'
    job = service.job(["sh", "-c", script], nodes=2, retries=1)
    job.start()
    until(lambda: job.log(rank=1, node=1) == "up\n" and job.log() == "up\n", "both ranks are up")
    os.killpg(job.started[1].pid, signal.SIGKILL)
    job.started[1].wait()
    job.started[1] = job.start_node(1)
    done = job.wait()
    assert [one.status for one in done] == [0, 0], [one.err for one in done]
    assert [(one["number"], one["state"], one["reason"]) for one in job.end()["attempts"]] == [
        (1, "lost", "node-failure"),
        (2, "succeeded", None),
    ]


def test_started_again_when_only_the_line_of_the_end_was_missing(service: Service) -> None:
    job = service.job(["sh", "-c", "echo $GOFER_ATTEMPT"], nodes=2)
    assert [one.status for one in job.run()] == [0, 0]
    end = job.end()
    for node in (0, 1):
        record = job.objects.get(job.key(f"attempts/1/node-{node}/exit.json"))
        job.objects.put(f"told/{job.id}/run/exit.1.{node}", record)
        job.objects.put(f"told/{job.id}/run/sent.{node}", b'{"life": "earlier", "attempt": 1}')
    job.objects.delete([job.key("ends.jsonl")])
    assert [one.status for one in job.run()] == [0, 0], job.output(1, "err")
    assert job.end()["attempts"][0]["ended_at"] == end["attempts"][0]["ended_at"]
    assert not job.has("attempts/2/node-0/rank-0.log")


def test_what_failed_because_another_node_was_ended_does_not_end_the_run(service: Service) -> None:
    """The service ended node 1, and before node 0 heard of it, its rank missed that of node 1 and failed."""
    job = service.job(["sh", "-c", "echo $GOFER_ATTEMPT"], nodes=2)
    times = {"started_at": 1.0, "ended_at": 2.0, "elapsed_s": 1.0, "first_failure": None, "detail": None}
    failed = {"state": "failed", "reason": "exit-code", "exit_code": 1, **times}
    fields = {"state": "lost", "reason": "preempted", "exit_code": 143, **times}
    for node, record in enumerate((failed, fields)):
        job.objects.put(job.key(f"attempts/1/node-{node}/exit.json"), json.dumps(record).encode())
    assert [one.status for one in job.run()] == [0, 0], job.output(0, "err")
    assert [(one["number"], one["reason"]) for one in job.end()["attempts"]] == [(1, "preempted"), (2, None)]


def test_every_node_has_the_outputs_of_all(service: Service) -> None:
    """Of the attempt before; and what one node changes then is not undone by the other."""
    script = """
cd "$GOFER_OUTPUT_DIR"
ls | tr '\\n' ' '
if test "$GOFER_ATTEMPT" = 1; then echo "of rank $RANK" > "of-$RANK"; echo first > shared; sleep 300; fi
test "$RANK" = 1 || echo second > shared
"""
    job = service.job(["sh", "-c", script], nodes=2, sync=["*"])
    job.start()
    until(lambda: all(job.has(f"outputs/{name}") for name in ("of-0", "of-1", "shared")), "the outputs")
    job.kill()
    done = job.run()
    assert [one.status for one in done] == [0, 0], [one.err for one in done]
    assert [job.log(2, rank=rank, node=rank) for rank in (0, 1)] == ["of-0 of-1 shared "] * 2
    for node in (0, 1):
        assert "restored 3 files" in job.read(f"attempts/2/node-{node}/setup.log")
    assert job.read("outputs/shared") == "second\n"
    assert job.read("outputs/of-1") == "of rank 1\n"
