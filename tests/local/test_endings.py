"""How runs end: exit codes and signals exact, the first failing rank named, limits, memory, set-up."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from home import Home, until


def ending(run: dict[str, Any]) -> tuple[str, str | None, int | None]:
    return run["state"], run["reason"], run["exit_code"]


@pytest.mark.parametrize("code", [1, 2, 125, 126, 127, 128, 137, 143, 254, 255])
def test_an_exit_code_is_the_runs_and_the_waits(home: Home, code: int) -> None:
    done = home.gofer("submit", "--no-code", "--wait", "sh", "-c", f"exit {code}", status=code)
    run = home.view(done.out.strip())
    assert ending(run) == ("failed", "exit-code", code)
    assert run["first_failure"]["exit_code"] == code
    assert run["first_failure"]["signal"] is None


def test_success_is_zero(home: Home) -> None:
    run = home.finish("true")
    assert ending(run) == ("succeeded", None, 0)
    assert run["first_failure"] is None
    assert run["elapsed_s"] >= 0
    assert run["submitted_at"] <= run["started_at"] <= run["ended_at"]


def test_all_exit_codes_of_an_array_are_exact(home: Home) -> None:
    """256 of them, as rows of one array."""
    group = home.submit("--each", "code=0..255", "sh", "-c", "exit {code}")
    home.gofer("wait", "-Q", group, status=255)
    rows = json.loads(home.gofer("list", "runs", "--all", "--filter", f"group={group}", "--json").out)
    assert len(rows) == 256
    assert all(row["exit_code"] == int(row["args"]["code"]) for row in rows)
    assert {row["state"] for row in rows if row["exit_code"]} == {"failed"}
    assert [row["state"] for row in rows if not row["exit_code"]] == ["succeeded"]


@pytest.mark.parametrize(
    "name", ["SIGKILL", "SIGTERM", "SIGINT", "SIGSEGV", "SIGABRT", "SIGUSR1", "SIGHUP", "SIGPIPE"]
)
def test_a_signal_is_named_and_is_not_an_exit_code(home: Home, name: str) -> None:
    number = getattr(signal, name)
    run = home.finish("sh", "-c", f"ulimit -c 0; kill -{number} $$; sleep 100")
    assert ending(run) == ("failed", "signal", 128 + number)
    assert (run["first_failure"]["exit_code"], run["first_failure"]["signal"]) == (None, number)
    assert name in run["why"]


def test_the_first_failing_rank_and_its_last_lines_are_shown(home: Home) -> None:
    """Rank 2 fails first; the others fail in its wake, as ranks do when a peer is gone."""
    script = (
        'if [ "$RANK" = 2 ]; then seq 1 100; echo "the cause"; exit 7; fi; '
        "trap 'echo a consequence; exit 9' TERM; while :; do sleep 0.05; done"
    )
    run = home.finish("--procs", "4", "sh", "-c", script)
    assert ending(run) == ("failed", "exit-code", 7)
    first = run["first_failure"]
    assert (first["rank"], first["exit_code"], first["tail"][-1]) == (2, 7, "the cause")
    text = home.gofer("q", run["id"]).out
    assert "the cause" in text
    assert "rank 2" in text
    assert "a consequence" in home.log(run["id"], "--rank", "0")


def test_the_first_failure_over_two_nodes(home: Home) -> None:
    script = (
        '[ "$RANK" = 3 ] && { sleep 0.5; echo "the cause"; exit 5; }; trap "exit 9" TERM; sleep 60 & wait'
    )
    run = home.finish("-N", "2", "--procs", "2", "sh", "-c", script)
    assert ending(run) == ("failed", "exit-code", 5)
    assert (run["first_failure"]["node"], run["first_failure"]["rank"]) == (1, 3)
    assert run["first_failure"]["tail"] == ["the cause"]


def test_a_node_that_fails_at_once_stops_the_other(home: Home) -> None:
    run = home.finish("-N", "2", "sh", "-c", '[ "$NODE_RANK" = 1 ] || exit 4; sleep 100')
    assert ending(run) == ("failed", "exit-code", 4)
    run = home.finish("-N", "2", "sh", "-c", '[ "$NODE_RANK" = 0 ] || exit 4; sleep 100')
    assert ending(run) == ("failed", "exit-code", 4)


def test_a_program_that_vanished_after_the_check(home: Home) -> None:
    """`{program}` cannot be checked before the queue; the shell's own codes say what was wrong."""
    plain = home.root / "not-a-program"
    plain.write_text("text")
    group = home.submit("--each", f"program=/no/such/program,{plain}", "{program}", "x")
    rows = home.wait(f"{group}-0", f"{group}-1")
    assert [ending(row) for row in rows] == [("failed", "exit-code", 127), ("failed", "exit-code", 126)]
    assert home.log(f"{group}-0") == "gofer: cannot run `/no/such/program`: No such file or directory\n"
    assert "Permission denied" in home.log(f"{group}-1")


@pytest.mark.slow
def test_the_time_limit_ends_a_run_that_ignores_the_request(home: Home) -> None:
    script = "trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done"
    run = home.finish("--time-limit", "10s", "--grace", "5", "sh", "-c", script)
    assert (run["state"], run["reason"]) == ("failed", "time-limit")
    assert "asked" in home.log(run["id"])
    assert "time limit of 10s" in run["why"]


def test_a_run_that_is_done_in_time_is_not_touched_by_its_limit(home: Home) -> None:
    assert home.finish("--time-limit", "100s", "true")["state"] == "succeeded"


def test_set_up_that_fails_is_the_reason(home: Home) -> None:
    run = home.finish("--setup", "echo preparing\necho no such wheel >&2\nexit 3", "echo", "never")
    assert (run["state"], run["reason"]) == ("failed", "set-up")
    assert "no such wheel" in run["why"]
    assert [log["rank"] for log in run["logs"]] == [None]
    assert home.log(run["id"]) == "preparing\nno such wheel\n"


def test_set_up_is_strict(home: Home) -> None:
    run = home.finish("--setup", "false | true; echo on", "echo", "never")
    assert (run["state"], run["reason"]) == ("failed", "set-up")


def test_set_up_counts_against_the_time_limit(home: Home) -> None:
    run = home.finish("--time-limit", "1s", "--grace", "0", "--setup", "sleep 100", "true")
    assert (run["state"], run["reason"]) == ("failed", "time-limit")
    assert "set-up" in run["why"]


def test_words_of_python_about_memory_are_understood(home: Home) -> None:
    run = home.finish("python", "-c", "x = bytearray(1 << 60)")
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "out-of-memory", 1)


def test_words_about_memory_in_a_run_that_succeeds_mean_nothing(home: Home) -> None:
    assert home.finish("echo", "MemoryError: caught")["state"] == "succeeded"


@pytest.mark.parametrize("state", ["running", "queued"])
def test_waiting_with_a_limit_gives_up_and_changes_nothing(home: Home, state: str) -> None:
    gate = home.root / "gate"
    hold = ["--cpus", str(cores()), "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done"]
    first = home.submit(*hold)
    run = first if state == "running" else home.submit(*hold)
    home.until_event(first, "started")
    done = home.gofer("wait", "--timeout", "0.3s", run, status=124)
    assert "still not ended after 0.3 s" in done.err
    until(lambda: home.view(run)["state"] == state, f"{run} {state}")
    gate.touch()
    assert {one["state"] for one in home.wait(first, run)} == {"succeeded"}


def cores() -> int:
    return len(os.sched_getaffinity(0))


def test_processes_left_behind_are_named(home: Home) -> None:
    """Background work that ends with its script is named wherever the end of the run is shown."""
    (home.folder / "train.py").write_text("import time\ntime.sleep(600)\n")
    (home.folder / "run.sh").write_text("nohup python train.py --token SECRET-TOKEN &\necho started\n")
    words = "1 process was still running and was ended: `train.py`; end run.sh with `wait`"
    done = home.gofer("submit", "-f", "bash", "run.sh")
    assert words in done.err
    view = home.view("last")
    assert (view["state"], view["detail"], view["why"]) == ("succeeded", words, words)
    assert words in home.gofer("q", "last").out
    assert words in home.gofer("why", "last").out
    (event,) = [one for one in home.events(view["id"]) if one["event"] == "left-running"]
    assert (event["names"], event["count"]) == (["train.py"], 1)
    message = done.err + json.dumps(view) + json.dumps(home.events(view["id"])[1:])
    assert "SECRET-TOKEN" not in message


def test_what_was_not_left_behind_by_the_command_is_not_named(home: Home) -> None:
    """A service of set-up, what a stop ended, and a failure, which has no need for `wait`."""
    served = home.finish("--setup", "sleep 600 >/dev/null 2>&1 &", "true")
    assert (served["state"], served["detail"]) == ("succeeded", None)
    late = home.finish("--time-limit", "1s", "--grace", "0s", "sh", "-c", "setsid sleep 600 & wait")
    assert "still running" not in late["why"]
    failed = home.finish("sh", "-c", "sleep 600 & sleep 601 & exit 3")
    assert failed["why"] == ("exited with 3; 2 processes were still running and were ended: `sleep` (2)")
    across = home.finish("-N", "2", "sh", "-c", '[ "$NODE_RANK" = 0 ] || sleep 600 & true')
    assert "was ended: `sleep`; end the command with `wait`" in across["why"]


def test_following_shows_the_rank_that_failed_first(home: Home) -> None:
    """Its last lines come before the last line of all, and rank 0's own log is not repeated."""
    script = 'echo "here is $RANK"; [ "$RANK" = 0 ] && exec sleep 600; echo "ValueError: boom"; exit 3'
    done = home.gofer("submit", "-f", "--no-code", "--procs", "2", "sh", "-c", script, status=3)
    assert done.out == "here is 0\n"
    tail = ["rank 1 on node 0 failed first; its last lines:", "  here is 1", "  ValueError: boom"]
    lines = done.err.splitlines()
    assert lines[-5:-2] == tail
    assert lines[-1].endswith("failed (exit-code): rank 1 exited with 3")
    alone = home.gofer("submit", "-f", "--no-code", "sh", "-c", "echo boom; exit 3", status=3)
    assert "boom" not in alone.err
