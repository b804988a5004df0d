"""A supervisor that comes and goes unseen, agents that die, and terminals that hang up."""

from __future__ import annotations

import json
import os
import pty
import signal
import time
from contextlib import suppress
from typing import Any

import pytest
from home import Home, until

CORES = len(os.sched_getaffinity(0))


def attempts(run: dict[str, Any]) -> list[tuple[int, str, str | None, int | None]]:
    return [(one["number"], one["state"], one["reason"], one["exit_code"]) for one in run["attempts"]]


def test_nothing_is_left_when_nothing_is_to_do_and_it_comes_back_on_demand(home: Home) -> None:
    gate = home.root / "gate"
    run = home.submit("sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    home.until_event(run, "started")
    assert home.supervisor() is not None
    gate.touch()
    assert home.wait(run)[0]["state"] == "succeeded"
    until(lambda: not home.processes(), "every process to leave")
    assert home.supervisor() is None
    assert home.finish("echo", "again")["state"] == "succeeded"


def test_reading_commands_start_nothing(home: Home) -> None:
    run = home.finish("true")["id"]
    until(lambda: not home.processes(), "every process to leave")
    for words in (
        ["q", run],
        ["list", "runs"],
        ["logs", run],
        ["wait", run],
        ["abort", run],
        ["list", "targets"],
    ):
        home.gofer(*words)
        assert home.processes() == {}, words


def kill_supervisor(home: Home) -> int:
    pid = home.supervisor()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def test_killing_the_supervisor_changes_nothing_a_user_can_see(home: Home) -> None:
    gate = home.root / "gate"
    script = f"echo first; until [ -e {gate} ]; do sleep 0.05; done; echo last; exit 3"
    run = home.submit("sh", "-c", script)
    follower = home.start("logs", "-f", run)
    home.until_event(run, "started")
    old = kill_supervisor(home)
    # Its agent sees to it that there is another, without any gofer command.
    until(lambda: home.supervisor() not in (None, old), "another supervisor")
    assert home.view(run)["state"] == "running"
    gate.touch()
    seen = home.wait(run)[0]
    assert (seen["state"], seen["reason"], seen["exit_code"]) == ("failed", "exit-code", 3)
    assert attempts(seen) == [(1, "failed", "exit-code", 3)]
    assert follower.communicate(timeout=60)[0] == b"first\nlast\n"
    assert follower.returncode == 0


def test_a_run_that_ends_while_there_is_no_supervisor_is_recorded_as_it_ended(home: Home) -> None:
    """The supervisor is killed repeatedly; commands and agents start a new one."""
    gate = home.root / "gate"
    run = home.submit("sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done; exit 9")
    home.until_event(run, "started")
    gate.touch()
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        pid = home.supervisor()
        if pid is not None:
            with suppress(ProcessLookupError):  # of the kill before
                os.kill(pid, signal.SIGKILL)
    seen = home.wait(run)[0]
    assert (seen["state"], seen["exit_code"], len(seen["attempts"])) == ("failed", 9, 1)


def test_a_run_does_not_end_with_another_whose_agent_called_its_supervisor(home: Home) -> None:
    """The agent of the first run starts a supervisor when its own is killed, and the new supervisor starts
    the agent of the second run. When the new supervisor is killed too, its agent is no stray process.
    """
    first, second = (home.root / name for name in ("first", "second"))
    wait = "until [ -e {} ]; do sleep 0.05; done; echo ended"
    one = home.submit("sh", "-c", wait.format(first))
    home.until_event(one, "started")
    for _ in range(2):
        before = kill_supervisor(home)
        until(lambda before=before: home.supervisor() not in (None, before), "another supervisor")  # type: ignore[misc]
        if not home.open_runs()[1:]:
            two = home.submit("sh", "-c", wait.format(second))
            home.until_event(two, "started")
    first.touch()
    assert home.wait(one)[0]["state"] == "succeeded"
    second.touch()
    assert home.wait(two)[0]["state"] == "succeeded"
    assert home.log(two) == "ended\n"


def test_waiting_runs_stay_in_the_queue_and_start_once(home: Home) -> None:
    gate, order = home.root / "gate", home.root / "order"
    alone = ["--cpus", str(CORES), "sh", "-c"]
    first = home.submit(*alone, f"until [ -e {gate} ]; do sleep 0.05; done")
    home.until_event(first, "started")
    runs = [home.submit(*alone, f"echo run{number} >> {order}") for number in range(3)]
    kill_supervisor(home)
    gate.touch()
    assert {run["state"] for run in home.wait(first, *runs)} == {"succeeded"}
    assert order.read_text().split() == ["run0", "run1", "run2"]


def test_an_abort_reaches_a_run_of_an_earlier_supervisor(home: Home) -> None:
    run = home.submit("sh", "-c", "trap 'echo asked; exit 3' TERM; echo up; sleep 100 & wait")
    home.until_logged(run, "up")
    kill_supervisor(home)
    home.gofer("abort", run)
    assert home.log(run) == "up\nasked\n"
    assert home.view(run)["state"] == "cancelled"


@pytest.mark.slow
def test_an_abort_survives_the_supervisor_that_was_to_do_it(home: Home) -> None:
    run = home.submit(
        "--grace", "10", "sh", "-c", "trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done"
    )
    home.until_logged(run, "up")
    asking = home.start("abort", run)
    home.until_logged(run, "asked")
    kill_supervisor(home)
    assert asking.communicate(timeout=100)[0].decode() == f"{run} cancelled\n"


def test_gpus_of_a_run_stay_taken_under_the_next_supervisor(home: Home) -> None:
    home.configure("targets: {two: {kind: local, gpus: 2}}")
    gate = home.root / "gate"
    hold = ["--single", "sh", "-c", f'echo "$CUDA_VISIBLE_DEVICES"; until [ -e {gate} ]; do sleep 0.05; done']
    first = home.submit("-t", "two", "-n", "1", *hold)
    home.until_event(first, "started")
    kill_supervisor(home)
    second = home.submit("-t", "two", "-n", "1", *hold)
    home.until_event(second, "started")
    both = home.submit("-t", "two", "-n", "2", *hold)
    home.gofer("wait", "--timeout", "1s", both, status=124)
    assert home.view(both)["state"] == "queued"
    gate.touch()
    home.wait(first, second, both)
    assert {home.log(first), home.log(second)} == {"0\n", "1\n"}


# -- agents


def test_a_killed_agent_is_a_lost_run(home: Home) -> None:
    run = home.submit("sh", "-c", "echo up; sleep 1000")
    os.kill(home.agent(run), signal.SIGKILL)
    seen = home.wait(run)[0]
    assert (seen["state"], seen["reason"], seen["exit_code"]) == ("lost", "node-failure", None)
    assert "agent was killed" in seen["why"]
    assert home.gofer("wait", run, status=1).out == f"{run} lost node-failure\n"
    assert home.left_over() == {}


def test_a_lost_run_is_tried_again_if_the_policy_says_so(home: Home) -> None:
    run = home.submit(
        "--retries", "1", "sh", "-c", 'echo "attempt $GOFER_ATTEMPT"; [ "$GOFER_ATTEMPT" = 2 ] || sleep 1000'
    )
    home.until_logged(run, "attempt 1")
    os.kill(home.agent(run), signal.SIGKILL)
    seen = home.wait(run)[0]
    assert attempts(seen) == [(1, "lost", "node-failure", None), (2, "succeeded", None, 0)]
    assert [home.log(run, "--attempt", number) for number in "12"] == ["attempt 1\n", "attempt 2\n"]


def test_an_agent_that_gets_sigterm_as_in_a_shutdown_is_a_lost_run_too(home: Home) -> None:
    """The command gets SIGTERM first, as in an abort, although no user wanted the run to end."""
    script = "trap 'echo asked; exit 3' TERM; echo up; sleep 1000 & wait"
    run = home.submit("--retries", "1", "sh", "-c", f'[ "$GOFER_ATTEMPT" = 2 ] || {{ {script}; }}')
    home.until_logged(run, "up")
    os.kill(home.agent(run), signal.SIGTERM)
    seen = home.wait(run)[0]
    assert attempts(seen) == [(1, "lost", "node-failure", 3), (2, "succeeded", None, 0)]
    assert home.log(run, "--attempt", "1") == "up\nasked\n"


def test_one_killed_agent_ends_the_run_on_all_its_nodes(home: Home) -> None:
    run = home.submit("-N", "2", "sleep", "1000")
    home.agent(run, node=0)
    os.kill(home.agent(run, node=1), signal.SIGKILL)
    seen = home.wait(run)[0]
    assert (seen["state"], seen["reason"]) == ("lost", "node-failure")
    assert home.left_over() == {}


def test_agent_and_supervisor_killed_together(home: Home) -> None:
    run = home.submit("sleep", "1000")
    agent = home.agent(run)
    kill_supervisor(home)
    os.kill(agent, signal.SIGKILL)
    seen = home.wait(run)[0]
    assert (seen["state"], seen["reason"]) == ("lost", "node-failure")
    assert home.left_over() == {}


def test_signals_that_programs_use_among_themselves_reach_the_ranks(home: Home) -> None:
    run = home.submit("sh", "-c", "trap 'echo usr1; exit 0' USR1; echo up; sleep 100 & wait")
    home.until_logged(run, "up")
    os.kill(home.agent(run), signal.SIGUSR1)
    assert home.wait(run)[0]["state"] == "succeeded"
    assert home.log(run) == "up\nusr1\n"


# -- the terminal


def test_a_run_outlives_the_terminal_it_was_submitted_from(home: Home) -> None:
    """Hanging up reaches every process of the terminal's session; the run is not one of them."""
    gate = home.root / "gate"
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(home.folder)
        words = [
            "submit",
            "--no-code",
            "-f",
            "sh",
            "-c",
            f"echo up; until [ -e {gate} ]; do sleep 0.05; done",
        ]
        os.execve(home.argv()[0], home.argv(*words), home.environ)
    text = b""
    while b"up\r\n" not in text:
        text += os.read(terminal, 1000)
    os.close(terminal)  # hangs up
    os.waitpid(child, 0)
    run = json.loads(home.gofer("list", "runs", "--json").out)[0]
    assert home.view(run["id"])["state"] == "running"
    gate.touch()
    assert home.wait(run["id"])[0]["state"] == "succeeded"


def test_leaving_a_followed_run_with_ctrl_c_leaves_it_running(home: Home) -> None:
    gate = home.root / "gate"
    following = home.start(
        "submit", "--no-code", "-f", "sh", "-c", f"echo up; until [ -e {gate} ]; do sleep 0.05; done"
    )
    assert following.stdout is not None
    assert following.stdout.readline() == b"up\n"
    following.send_signal(signal.SIGINT)
    _, talk = following.communicate(timeout=60)
    assert following.returncode == 130, talk
    run = home.view("last")
    assert run["state"] == "running"
    gate.touch()
    assert home.wait(run["id"])[0]["state"] == "succeeded"


def test_a_supervisor_that_cannot_stay_is_named(home: Home) -> None:
    home.finish("true")
    lock = home.queue_home / "supervisor.lock"
    until(lambda: not home.processes(), "the first supervisor to leave")
    lock.unlink()
    lock.mkdir()
    late = home.gofer("submit", "--no-code", "--wait", "true", status=1)
    assert "ends right after its start: IsADirectoryError" in late.err
    lock.rmdir()
    home.gofer("wait", "last")
