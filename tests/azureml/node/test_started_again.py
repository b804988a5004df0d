"""What the service may do to a job on one node: tell it to end, kill it, start it again."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from azureml.node.service import Service, until

FIRST_WAITS = 'echo up $GOFER_ATTEMPT; test "$GOFER_ATTEMPT" = 2 || sleep 300'


def test_told_to_end_then_started_again(service: Service) -> None:
    job = service.job(["sh", "-c", FIRST_WAITS])
    job.start()
    until(lambda: job.log() == "up 1\n", "the rank is up")
    job.terminate()
    (done,) = job.wait()
    assert done.status == 143
    record = job.exit_record()
    assert (record["state"], record["reason"]) == ("lost", "preempted")
    assert record["detail"] == "the service told it to end"
    assert not job.has("ends.jsonl")
    assert "private.json" in job.rooms()  # it may be resumed
    (done,) = job.run()
    assert done.status == 0, done.err
    attempts = job.end()["attempts"]
    assert [(one["number"], one["state"], one["reason"]) for one in attempts] == [
        (1, "lost", "preempted"),
        (2, "succeeded", None),
    ]
    assert job.rooms() == ["over.json", "request.json"]


def test_what_it_was_told_is_in_the_store_before_its_ranks_have_ended(service: Service) -> None:
    """The service may kill it at any moment from then on."""
    job = service.job(
        ["sh", "-c", "trap 'echo caught' TERM; echo up; while :; do sleep 1; done"], grace_s=60.0
    )
    job.start()
    until(lambda: job.log() == "up\n", "the rank is up")
    job.terminate()
    until(lambda: job.has("attempts/1/node-0/exit.json"), "the record")
    assert job.started[0].poll() is None
    assert job.exit_record()["reason"] == "preempted"
    until(lambda: "caught" in job.log(), "the log goes on")
    job.kill()


def test_ranks_that_do_not_listen_are_killed_before_long(service: Service) -> None:
    job = service.job(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"], grace_s=1.0)
    job.start()
    until(lambda: job.log() == "up\n", "the rank is up")
    job.terminate()
    (done,) = job.wait()
    assert (done.status, job.exit_record()["signal"]) == (137, 9)


def test_killed_then_started_again(service: Service) -> None:
    job = service.job(["sh", "-c", FIRST_WAITS])
    job.start()
    until(lambda: job.log() == "up 1\n", "the rank is up")
    job.kill()
    (done,) = job.run()
    assert done.status == 0, done.err
    assert [(one["number"], one["state"], one["reason"]) for one in job.end()["attempts"]] == [
        (1, "lost", "node-failure"),
        (2, "succeeded", None),
    ]
    assert job.end()["attempts"][0]["detail"] == "the service started it again"


def test_what_a_killed_agent_left_running_is_ended_first(service: Service) -> None:
    """A command never runs twice at once, and never twice in one attempt."""
    job = service.job(["sh", "-c", FIRST_WAITS + "; echo done"])
    job.start()
    until(lambda: job.log() == "up 1\n", "the rank is up")
    rank = int(
        job.read("attempts/1/node-0/events.jsonl.parts/000000000000000")
        .split('"pids":{"0":')[1]
        .split("}")[0]
    )
    os.kill(job.started[0].pid, signal.SIGKILL)
    job.started[0].wait()
    os.kill(rank, 0)  # it is still there
    (done,) = job.run()
    assert done.status == 0, done.err
    assert "done" not in job.log(1)
    until(lambda: not os.path.exists(f"/proc/{rank}"), "the rank of the first attempt is gone")


def test_killed_before_anything_reached_the_store(service: Service) -> None:
    """The attempt was taken up, so it is not taken up again."""
    job = service.job(["sh", "-c", "echo $GOFER_ATTEMPT"])
    job.objects.put(f"rooms/{job.id}/told/run/begun.1", b'{"at": 5.0}')
    (done,) = job.run()
    assert (done.status, job.log(2)) == (0, "2\n")
    assert [(one["number"], one["state"]) for one in job.end()["attempts"]] == [(1, "lost"), (2, "succeeded")]


def test_a_run_that_has_ended_is_not_started_again(service: Service) -> None:
    job = service.job(["sh", "-c", "echo $GOFER_ATTEMPT"])
    (done,) = job.run()
    end = job.end()
    (again,) = job.run()
    assert (done.status, again.status) == (0, 0)
    assert job.end() == end
    assert not job.has("attempts/2/node-0/exit.json")
    assert "has ended before" in again.err


def test_a_run_that_failed_for_good_ends_as_it_did(service: Service) -> None:
    job = service.job(["sh", "-c", "exit 3"])
    assert [one.status for one in (*job.run(), *job.run())] == [3, 3]


def test_retries_are_counted_over_the_lives_of_a_job(service: Service) -> None:
    job = service.job(["sh", "-c", 'echo up; test "$GOFER_ATTEMPT" != 1 || sleep 300; exit 5'], retries=2)
    job.start()
    until(lambda: job.log() == "up\n", "the rank is up")
    job.terminate()
    job.wait()
    assert [one.status for one in job.run()] == [5]
    assert [(one["number"], one["reason"]) for one in job.end()["attempts"]] == [
        (1, "preempted"),  # which uses up no retry
        (2, "exit-code"),
        (3, "exit-code"),
        (4, "exit-code"),
    ]


@pytest.mark.parametrize("delay_s", [0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4])
def test_told_to_end_at_any_moment_of_its_start(service: Service, delay_s: float) -> None:
    """It never looks as if the run had succeeded, and the next start makes it."""
    job = service.job(["sh", "-c", "sleep 2; echo $GOFER_ATTEMPT"])
    job.start()
    time.sleep(delay_s)
    job.terminate()
    (done,) = job.wait()
    assert done.status != 0
    assert not job.has("ends.jsonl")
    (done,) = job.run()
    assert done.status == 0, done.err
    attempts = [(one["number"], one["state"]) for one in job.end()["attempts"]]
    assert attempts in ([(1, "succeeded")], [(1, "lost"), (2, "succeeded")])


@pytest.mark.parametrize("code", [0, 3])
def test_started_again_after_its_private_values_are_gone(service: Service, code: int) -> None:
    """The service brings the room as it is in the store then."""
    job = service.job(["sh", "-c", f"exit {code}"])
    (done,) = job.run()
    assert done.status == code, done.err
    (job.room / "private.json").unlink()
    (job.room / "over.json").write_bytes(job.objects.get(f"rooms/{job.id}/over.json"))
    (done,) = job.run()
    assert (done.status, done.out) == (code, f"gofer: {job.id} has ended before; nothing is started\n")


@pytest.mark.slow
def test_no_attempt_runs_its_command_twice_however_often_it_is_killed(
    service: Service, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    job = service.job(["sh", "-c", f"echo $GOFER_ATTEMPT >> {starts}; sleep 0.7"])
    delays = random.Random(5)
    for _ in range(12):
        job.start()
        time.sleep(delays.uniform(0.2, 0.9))
        job.kill()
    (done,) = job.run()
    assert done.status == 0, done.err
    numbers = starts.read_text().split()
    assert len(numbers) == len(set(numbers)) > 1
    assert int(numbers[-1]) == job.end()["attempts"][-1]["number"]
    assert {one["state"] for one in job.end()["attempts"][:-1]} == {"lost"}
