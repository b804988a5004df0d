"""What the service may do to a job on one node: tell it to end, kill it, start it again."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from azureml.node.service import Job, Service, until

FIRST_WAITS = 'echo up $GOFER_ATTEMPT; test "$GOFER_ATTEMPT" = 2 || sleep 300'


def test_a_signal_to_end_then_a_restart(service: Service) -> None:
    job = service.job(["sh", "-c", FIRST_WAITS])
    job.start()
    until(lambda: job.log() == "up 1\n", "the rank is up")
    job.terminate()
    (done,) = job.wait()
    assert done.status == 143
    record = job.exit_record()
    assert (record["state"], record["reason"]) == ("lost", "preempted")
    assert record["detail"] == "the service ended this node"
    assert not job.has("ends.jsonl")
    assert "private.json" in job.handoff_keys()  # it may be resumed
    (done,) = job.run()
    assert done.status == 0, done.err
    attempts = job.end()["attempts"]
    assert [(one["number"], one["state"], one["reason"]) for one in attempts] == [
        (1, "lost", "preempted"),
        (2, "succeeded", None),
    ]
    assert job.handoff_keys() == ["over.json", "request.json"]


def test_the_signal_is_recorded_in_the_store_before_the_ranks_have_ended(service: Service) -> None:
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
    until(lambda: "caught" in job.log(), "the log continues")
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
    events = "attempts/1/node-0/events.jsonl.parts/000000000000000"
    until(lambda: job.has(events) and '"pids":{"0":' in job.read(events), "the pid of the rank")
    rank = int(job.read(events).split('"pids":{"0":')[1].split("}")[0])
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
    job.objects.put(f"told/{job.id}/run/begun.1", b'{"at": 5.0}')
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
    assert "has already ended" in again.err


def test_what_an_earlier_life_did_not_clear_away_goes(service: Service) -> None:
    """It was killed when it had written the line of the end."""
    job = service.job(["true"])
    job.run()
    job.objects.put(f"told/{job.id}/run/begun.1", b'{"at": 5.0}')
    job.objects.put(f"rooms/{job.id}/private.json", b"{}")
    job.objects.delete([f"rooms/{job.id}/over.json"])
    (again,) = job.run()
    assert (again.status, job.handoff_keys()) == (0, ["over.json", "request.json"])
    assert not [*job.objects.list_beginning(f"told/{job.id}/")]


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
def test_a_signal_to_end_at_any_moment_of_the_start(service: Service, delay_s: float, tmp_path: Path) -> None:
    """It never looks as if the run had succeeded, and the next start makes it."""
    gate = tmp_path / "gate"
    job = service.job(["sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done; echo $GOFER_ATTEMPT"])
    job.start()
    time.sleep(delay_s)
    job.terminate()
    (done,) = job.wait()
    assert done.status != 0
    assert not job.has("ends.jsonl")
    gate.touch()
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
    assert (done.status, done.out) == (code, f"gofer: {job.id} has already ended; nothing is started\n")


@pytest.mark.slow
def test_no_attempt_runs_its_command_twice_however_often_it_is_killed(
    service: Service, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    script = f"echo $GOFER_ATTEMPT >> {starts}; [ $GOFER_ATTEMPT != 1 ] || sleep 300; sleep 0.7"
    job = service.job(["sh", "-c", script])
    job.start()
    until(starts.exists, "the first start")
    job.kill()
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


def ended_well(job: Job, nodes: int) -> None:
    """What an earlier life left in the store whose ranks have all ended well."""
    record = {"state": "succeeded", "reason": None, "detail": None, "exit_code": 0, "started_at": 5.0}
    result = json.dumps({**record, "ended_at": 6.0, "elapsed_s": 1.0}).encode()
    for node in range(nodes):
        job.objects.put(job.key(f"attempts/1/node-{node}/exit.json"), result)
    job.objects.put(f"told/{job.id}/run/begun.1", b'{"at": 5.0}')


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_success_whose_files_went_with_the_node_is_made_again(service: Service, nodes: int) -> None:
    job = service.job(["sh", "-c", 'echo $GOFER_ATTEMPT > "$GOFER_OUTPUT_DIR/$GOFER_RANK"'], nodes=nodes)
    ended_well(job, nodes)
    assert [done.status for done in job.run()] == [0] * nodes
    assert [job.read(f"outputs/{rank}") for rank in range(nodes)] == ["2\n"] * nodes
    assert [(one["number"], one["state"], one["detail"]) for one in job.end()["attempts"]] == [
        (1, "lost", "its node was taken away before its files were in the store"),
        (2, "succeeded", None),
    ]


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_success_of_which_only_the_last_line_is_missing_is_not_made_again(
    service: Service, nodes: int
) -> None:
    job = service.job(["sh", "-c", "exit 9"], nodes=nodes)
    ended_well(job, nodes)
    for node in range(nodes):
        job.objects.put(f"told/{job.id}/run/sent.{node}", b'{"life": "earlier", "attempt": 1}')
    assert [done.status for done in job.run()] == [0] * nodes
    assert [(one["number"], one["state"]) for one in job.end()["attempts"]] == [(1, "succeeded")]


# -- outputs outlive their node

TRAIN = """
cd "$GOFER_OUTPUT_DIR"
step=$(cat last.ckpt 2>/dev/null || echo 0)
echo "attempt $GOFER_ATTEMPT begins at step $step with $(ls | wc -l) files"
test "$step" -lt 3 || { echo finished > result; exit 0; }
echo $((step + 3)) > next && mv next last.ckpt
echo other > kept.txt
trap 'echo told > told.txt; exit 1' TERM
sleep 300 & wait
"""


def test_a_node_that_gets_a_signal_to_end_leaves_its_outputs_to_the_next(service: Service) -> None:
    """Nothing is sent while it runs; the end of its life is time enough."""
    job = service.job(["sh", "-c", TRAIN])
    job.start()
    until(lambda: "begins at step 0 with 0 files" in job.log(), "the rank is up")
    until(lambda: list(job.room.parent.glob("node-0/gofer-*/*/*/spool/runs/*/outputs/kept.txt")), "a file")
    job.terminate()
    job.wait()
    held = {name: tag(job, name) for name in ("last.ckpt", "kept.txt", "told.txt")}
    (done,) = job.run()
    assert done.status == 0, done.err
    assert job.log(2) == "attempt 2 begins at step 3 with 3 files\n"
    words = job.read("attempts/2/node-0/setup.log")
    assert re.fullmatch(r"gofer: restored 3 files of the outputs, 13 bytes, in \d+\.\d s\n", words)
    assert words in done.out
    assert {name: tag(job, name) for name in held} == held  # as they came, so they were not sent again
    assert job.read("outputs/result") == "finished\n"
    assert not job.has("attempts/1/node-0/setup.log")


def tag(job: Job, name: str) -> str | None:
    """Which version of an output the store has."""
    info = job.objects.head(job.key(f"outputs/{name}"))
    assert info is not None
    return info.etag


def test_a_killed_node_leaves_what_it_wrote(service: Service) -> None:
    job = service.job(["sh", "-c", TRAIN], sync=["*"])
    job.start()
    until(lambda: job.has("outputs/last.ckpt") and job.has("outputs/kept.txt"), "the outputs")
    job.kill()
    (done,) = job.run()
    assert done.status == 0, done.err
    assert job.log(2) == "attempt 2 begins at step 3 with 2 files\n"


def test_a_retry_on_the_same_node_finds_its_own_and_brings_nothing(service: Service) -> None:
    script = 'cd $GOFER_OUTPUT_DIR; ls; echo $GOFER_ATTEMPT > a; test "$GOFER_ATTEMPT" = 3'
    job = service.job(["sh", "-c", script], retries=2)
    (done,) = job.run()
    assert done.status == 0, done.err
    assert [job.log(number) for number in (1, 2, 3)] == ["", "a\n", "a\n"]
    assert not [info.key for info in job.objects.list(job.key("attempts")) if info.key.endswith("setup.log")]


def test_outputs_that_cannot_be_brought_end_the_attempt(service: Service) -> None:
    """An empty folder would be taken for a run that has not begun."""
    job = service.job(["sh", "-c", "ls $GOFER_OUTPUT_DIR"])
    job.objects.put(f"told/{job.id}/run/begun.1", b'{"at": 5.0}')
    job.objects.put(job.key("outputs/last.ckpt"), b"7")
    job.objects.put(job.key("outputs/a//b"), b"which no folder can hold")
    (done,) = job.run()
    end = job.end()
    assert (done.status, end["state"], end["reason"]) == (1, "failed", "staging")
    assert "the outputs of earlier attempts could not be restored from the store: no file" in end["detail"]
    assert not job.has("attempts/2/node-0/rank-0.log")
