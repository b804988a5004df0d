"""`gofer why` on this machine's queue: what a run waits for, what it does, and what ended it."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from home import Home, until

FOUR = "targets: {four: {kind: local, gpus: 4}}"


def why(home: Home, reference: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(home.gofer("why", "--json", reference).out)
    return found


@pytest.fixture
def gpu_home(home: Home) -> Home:
    home.configure(FOUR)
    return home


def hold(home: Home, *words: str) -> str:
    """A run that is up and stays."""
    run = home.submit(*words, "sh", "-c", "echo up; exec sleep 600")
    home.until_logged(run, "up")
    return run


def stop(home: Home, *runs: str) -> None:
    home.gofer("abort", "-Q", "--grace", "0s", *runs)
    home.wait(*runs)


def short(run: str) -> str:
    return run.rpartition("-")[2]


def test_why_names_the_runs_that_hold_the_gpus(gpu_home: Home) -> None:
    holder = hold(gpu_home, "-t", "four", "-n", "3", "--single")
    first = gpu_home.submit("-t", "four", "-n", "4", "--single", "true")
    second = gpu_home.submit("-t", "four", "-n", "2", "--single", "true")
    third = gpu_home.submit("-t", "four", "-n", "2", "--single", "--priority", "5", "true")
    found = why(gpu_home, first)
    assert found["why"] == f"it needs 4 GPUs (1 of 4 free); held by {short(holder)} (3 GPUs)"
    assert (found["state"], found["ahead"], found["estimated_start"]) == ("queued", 1, None)
    assert (why(gpu_home, second)["ahead"], why(gpu_home, third)["ahead"]) == (2, 0)
    text = gpu_home.gofer("why", first).out
    assert text.startswith(f"{short(first)} waits: it needs 4 GPUs (1 of 4 free)")
    assert "ahead of it  1 run\n" in text
    assert f"  gofer abort {short(first)}\n" in text
    stop(gpu_home, holder, first, second, third)


def test_q_says_what_a_waiting_run_waits_for(gpu_home: Home) -> None:
    holder = hold(gpu_home, "-t", "four", "-n", "3", "--single")
    waiting = gpu_home.submit("-t", "four", "-n", "4", "--single", "true")
    shown = gpu_home.gofer("q", "--no-logs", waiting).out
    reason = f"it needs 4 GPUs (1 of 4 free); held by {short(holder)} (3 GPUs)"
    assert shown.startswith(f"state      queued\nwhy        {reason}\nid ")
    shown = gpu_home.gofer("q", "--no-logs", holder).out
    assert "\nstate      running\n" in shown
    assert f"\nshell      gofer ssh {short(holder)}\n" in shown
    stop(gpu_home, holder, waiting)


def test_the_estimate_is_the_end_of_the_time_limits(gpu_home: Home) -> None:
    holder = hold(gpu_home, "-t", "four", "-n", "4", "--single", "--time-limit", "1h")
    waiting = gpu_home.submit("-t", "four", "-n", "4", "--single", "true")
    found = why(gpu_home, waiting)
    assert found["estimated_start"] > why(gpu_home, holder)["started_at"]
    assert "(scheduler estimate)" in gpu_home.gofer("why", waiting).out
    stop(gpu_home, holder, waiting)


def test_why_reports_missing_processors(home: Home) -> None:
    cores = json.loads(home.gofer("list", "nodes", "--json").out)[0]["cpus"]
    holder = hold(home, "--cpus", str(cores))
    waiting = home.submit("true")
    expected = f"it needs 1 CPU (0 of {cores} free); held by {short(holder)} ({cores} CPUs)"
    assert why(home, waiting)["why"] == expected
    stop(home, holder, waiting)


def test_why_names_the_run_that_a_start_would_delay(gpu_home: Home) -> None:
    holder = hold(gpu_home, "-t", "four", "-n", "3", "--single", "--time-limit", "1h")
    head = gpu_home.submit("-t", "four", "-n", "4", "--single", "true")
    behind = gpu_home.submit("-t", "four", "-n", "1", "true")
    found = why(gpu_home, behind)
    assert found["why"] == f"enough is free, but it would delay {short(head)}, the first run in the queue"
    stop(gpu_home, holder, head, behind)


def test_a_retry_says_when_it_begins(home: Home) -> None:
    run = home.submit("--retries", "9", "sh", "-c", "exit 3")
    found = until(
        lambda: next(iter([one for one in [why(home, run)] if "begins in" in (one["why"] or "")]), {}),
        "a pause between attempts",
    )
    number = found["attempts"]
    assert found["why"].startswith(f"attempt {number} failed; attempt {number + 1} begins in ")
    stop(home, run)


def test_a_running_run_shows_signs_of_life(home: Home) -> None:
    run = hold(home)
    until(lambda: why(home, run)["heartbeat_age_s"] is not None, "a heartbeat")
    found = why(home, run)
    assert (found["state"], found["why"]) == ("running", None)
    assert found["log_age_s"] > 0
    text = home.gofer("why", run).out
    assert text.startswith(f"{short(run)} runs\n")
    for word in ("since", "heartbeat", "last line", f"gofer ssh {short(run)}"):
        assert word in text
    stop(home, run)


def test_the_rank_that_failed_first_is_named_with_its_last_lines(home: Home) -> None:
    script = "if [ $RANK = 3 ]; then echo about to fail; exit 9; fi; exec sleep 600"
    run = home.finish("-N", "2", "--procs", "2", "sh", "-c", script)
    found = why(home, run["id"])
    assert found["why"] == "rank 3 exited with 9"
    assert (found["first_failure"]["rank"], found["first_failure"]["node"]) == (3, 1)
    text = home.gofer("why", run["id"]).out
    assert text.startswith(f"{run['short_id']} failed: rank 3 exited with 9\n")
    assert "failed first  rank 3 of 4, on node 1\n" in text
    assert "its last lines:\n  about to fail\n" in text
    assert text.endswith(
        f"next:\n  gofer logs {run['short_id']} --rank 3\n  gofer resubmit {run['short_id']}\n"
    )


@pytest.mark.parametrize(
    ("words", "expected", "step"),
    [
        (["sh", "-c", "kill -9 $$"], "killed by signal 9 (SIGKILL)", "gofer resubmit"),
        (["python", "-c", "raise MemoryError"], "rank 0 ran out of memory; use", "gofer list nodes"),
        (["--time-limit", "1s", "sleep", "60"], "stopped at its time limit of 1s", "-limit 2s sleep 60"),
        (["--setup", "echo no pip; exit 4", "true"], "set-up ended with 4: no pip; correct", "gofer logs"),
    ],
)  # fmt: skip
def test_what_killed_it_and_what_to_do(home: Home, words: list[str], expected: str, step: str) -> None:
    run = home.finish(*words)
    found = why(home, run["id"])
    assert found["why"].startswith(expected)
    assert any(step in one for one in found["next"]), found["next"]


def test_after_a_time_limit_the_last_lines_and_the_same_run(home: Home) -> None:
    """A bar drawn with `\\r` is one line at its last state, in every tail; the log itself stays as it was."""
    script = 'printf "start\\n  0%%\\r 50%%\\r 99%%\\nwaiting\\n"; sleep 600'
    options = ["--procs", "2", "--cpus", "1", "-e", "FOO=a b", "--setup", "true", "--tag", "a=1"]
    run = home.finish(*options, "--time-limit", "2s", "sh", "-c", script)
    found = why(home, run["id"])
    assert found["last_lines"] == ["start", " 99%", "waiting"]
    (line,) = found["next"]
    sent = ["-t", "local", "--procs", "2", "--cpus", "1", "--setup", "true", "-e", "FOO=a b", "--tag", "a=1"]
    assert shlex.split(line) == [
        *["gofer", "submit", *sent, "--no-code", "--time-limit", "4s", "sh", "-c", script]
    ]
    assert "its last lines:\n  start\n   99%\n  waiting\n" in home.gofer("why", run["id"]).out
    assert home.log(run["id"], "--tail", "2") == " 99%\nwaiting\n"
    assert home.gofer("q", run["id"], "--lines", "2").out.startswith(" 99%\nwaiting\n")
    assert home.log(run["id"], "--tail", "2", "-f") == " 99%\nwaiting\n"
    assert "  0%\r 50%\r 99%\n" in home.log(run["id"])


def test_a_run_that_succeeded_is_one_line(home: Home) -> None:
    run = home.finish("true")
    assert home.gofer("why", "last").out.startswith(f"{run['short_id']} succeeded after ")
    assert len(home.gofer("why", "last").out.splitlines()) == 1


def test_why_lists_the_runs_of_a_group_by_reason_with_an_example_of_each(home: Home) -> None:
    script = "echo row {x}; exit $(( {x} % 3 ))"
    run = home.finish("--each", "x=0,1,2,3,4,5,6", "sh", "-c", script)
    found = why(home, run["id"])
    reasons = [(one["runs"], one["state"], one["why"], one["example"]) for one in found["reasons"]]
    name = run["short_id"]
    assert reasons == [
        (2, "failed", "exited with 1", f"{name}-1"),
        (2, "failed", "exited with 2", f"{name}-2"),
        (3, "succeeded", None, f"{name}-0"),
    ]
    text = home.gofer("why", run["id"]).out
    assert f"2 runs failed: exited with 1, for example {name}-1\n  row 1\n" in text
    assert f"  gofer resubmit --failed {name}\n" in text


def test_a_waiting_group_says_what_its_runs_wait_for(gpu_home: Home) -> None:
    holder = hold(gpu_home, "-t", "four", "-n", "4", "--single")
    group = gpu_home.submit("-t", "four", "-n", "1", "--each", "x=1,2,3", "true", "{x}")
    (only,) = why(gpu_home, group)["reasons"]
    assert (only["runs"], only["state"]) == (3, "queued")
    assert only["why"] == f"it needs 1 GPU (0 of 4 free); held by {short(holder)} (4 GPUs)"
    stop(gpu_home, holder, group)


def test_several_runs_are_an_array_of_answers(home: Home) -> None:
    runs = [home.finish("true")["id"], home.finish("false")["id"]]
    found = json.loads(home.gofer("why", "--json", *runs).out)
    assert [one["id"] for one in found] == runs
