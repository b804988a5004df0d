"""Abort and its kin: asked first, then killed, and nothing of a run is left, however it tried to get away."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import Home, until

from gofer.node import cgroups

# A daemon in the old way: forked twice, in a session of its own, at the root, and deaf to all it may ignore.
DAEMON = """
import os, signal, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.chdir("/")
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
time.sleep(1000)
"""
SAVE = """
import signal, sys, time
def save(*_):
    time.sleep(1)
    print("saved", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(100)
"""
UNPRIVILEGED = [
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
    # To reach an interpreter in somebody's home; it allows to read, not to write.
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
]  # fmt: skip


def daemon_command(home: Home, then: str) -> list[str]:
    """A command that starts two daemons, one with a clean environment, and then runs `then`."""
    script, clean, plain = (home.root / name for name in ("daemon.py", "clean.pid", "plain.pid"))
    script.write_text(DAEMON)
    words = (
        f"env -i {sys.executable} {script} {clean}; {sys.executable} {script} {plain};"
        f" until [ -s {clean} ] && [ -s {plain} ]; do sleep 0.02; done; {then}"
    )
    return ["sh", "-c", words]


def daemons(home: Home) -> list[int]:
    """The pids of those two, once both have said them."""
    files = [home.root / "clean.pid", home.root / "plain.pid"]
    until(lambda: all(file.exists() and file.read_text() for file in files), "the daemons")
    return [int(file.read_text()) for file in files]


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[Home]:
    """The home of a user without the right to make cgroups."""
    one = Home(tmp_path, prefix=UNPRIVILEGED)
    for path in (tmp_path, one.folder):
        os.chown(path, 65534, 65534)
    yield one
    one.close()


def test_abort_asks_first(home: Home) -> None:
    run = home.submit(
        "sh", "-c", "trap 'echo saving; sleep 0.3; echo saved; exit 3' TERM; echo up; sleep 100 & wait"
    )
    home.until_logged(run, "up")
    done = home.gofer("abort", run)
    assert done.out == f"{run} cancelled\n"
    assert home.log(run).split() == ["up", "saving", "saved"]
    seen = home.view(run)
    assert (seen["state"], seen["reason"], seen["exit_code"]) == ("cancelled", "user", 3)


def test_what_ignores_the_request_is_killed_after_the_grace(home: Home) -> None:
    run = home.submit("--grace", "0.5", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    home.until_logged(run, "up")
    home.gofer("abort", run)
    seen = home.view(run)
    assert (seen["state"], seen["reason"], seen["exit_code"]) == ("cancelled", "user", 128 + signal.SIGKILL)


def test_an_abort_with_a_shorter_grace_than_the_runs_own(home: Home) -> None:
    run = home.submit("--grace", "1h", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    home.until_logged(run, "up")
    home.gofer("abort", "--grace", "0", run)
    assert home.view(run)["state"] == "cancelled"


def test_an_abort_with_a_longer_grace_than_the_runs_own(home: Home) -> None:
    run = home.submit(
        "--grace", "0", "sh", "-c", "trap 'sleep 2; echo saved; exit' TERM; echo up; sleep 100 & wait"
    )
    home.until_logged(run, "up")
    home.gofer("abort", "--grace", "100s", run)
    assert home.log(run) == "up\nsaved\n"
    assert home.view(run)["state"] == "cancelled"


def test_a_second_abort_may_be_less_patient(home: Home) -> None:
    run = home.submit(
        "--grace", "1h", "sh", "-c", "trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done"
    )
    home.until_logged(run, "up")
    first = home.start("abort", run)
    home.until_logged(run, "asked")
    home.gofer("abort", "--grace", "0", run)
    assert home.view(run)["state"] == "cancelled"
    assert first.communicate(timeout=60)[0].decode() == f"{run} cancelled\n"


def test_the_program_below_a_shell_has_its_grace_too(home: Home) -> None:
    """The shell dies of SIGTERM at once; what it started is given the time to save."""
    run = home.submit("sh", "-c", f'{sys.executable} -c "$0"; echo never', SAVE)
    home.until_logged(run, "up")
    home.gofer("abort", run)
    assert home.log(run) == "up\nsaved\n"


def test_every_rank_of_every_node_is_stopped(home: Home) -> None:
    run = home.submit(
        "-N", "2", "--procs", "2", "sh", "-c", "trap 'echo asked $RANK; exit' TERM; echo up; sleep 100 & wait"
    )
    for rank in range(4):
        home.until_logged(run, "up", rank=rank)
    home.gofer("abort", run)
    assert [home.log(run, "--rank", str(rank)).split()[1:] for rank in range(4)] == [
        ["asked", str(r)] for r in range(4)
    ]
    assert home.view(run)["state"] == "cancelled"


def test_a_run_that_waits_is_stopped_without_being_started(home: Home) -> None:
    first = home.submit("--cpus", str(os.cpu_count() or 1), "sleep", "100")
    second = home.submit("--cpus", str(os.cpu_count() or 1), "echo", "never")
    assert "cancelled" in home.gofer("abort", second).out
    seen = home.view(second)
    assert (seen["state"], seen["reason"], seen["attempts"], seen["logs"]) == ("cancelled", "user", [], [])
    assert "before it was started" in seen["why"]
    home.gofer("abort", "--grace", "0", first)


def test_set_up_is_stopped(home: Home) -> None:
    run = home.submit("--setup", "echo up; sleep 100", "echo", "never")
    home.until_logged(run, "up")
    home.gofer("abort", run)
    seen = home.view(run)
    assert (seen["state"], seen["reason"]) == ("cancelled", "user")
    assert [log["rank"] for log in seen["logs"]] == [None]


def test_aborting_what_has_ended_changes_nothing(home: Home) -> None:
    run = home.finish("sh", "-c", "exit 3")
    done = home.gofer("abort", run["id"], run["id"])
    assert done.out == f"{run['id']} failed\n"
    assert home.view(run["id"]) | {"observed_at": None} == run | {"observed_at": None}


def test_several_are_stopped_by_one_command(home: Home) -> None:
    runs = [home.submit("sleep", "100") for _ in range(3)]
    done = home.gofer("abort", "--json", *runs)
    assert [one["state"] for one in json.loads(done.out)] == ["cancelled"] * 3


def check_daemons_end_with_an_abort(home: Home) -> None:
    run = home.submit(*daemon_command(home, "sleep 1000"))
    pids = daemons(home)
    assert all(map(is_running, pids))
    home.gofer("abort", run)
    # Without a wait: a run that has ended holds no GPU and no process.
    assert home.left_over() == {}
    assert not any(map(is_running, pids))


def check_daemons_end_with_the_run(home: Home) -> None:
    run = home.finish(*daemon_command(home, "exit 0"))
    assert home.left_over() == {}
    assert run["state"] == "succeeded"
    assert not any(map(is_running, daemons(home)))


def check_processes_end_with_their_agent(home: Home) -> None:
    """Killed with -9, an agent cannot clean up; who started it does."""
    run = home.submit(
        "sh", "-c", "trap '' TERM; (setsid sleep 1000 &) ; echo up; while :; do sleep 0.05; done"
    )
    home.until_logged(run, "up")
    os.kill(home.agent(run), signal.SIGKILL)
    seen = home.wait(run)[0]
    assert (seen["state"], seen["reason"]) == ("lost", "node-failure")
    assert home.left_over() == {}


@pytest.mark.root
@pytest.mark.skipif(cgroups.find_parent() is None, reason="no cgroup can be made here")
def test_daemons_end_with_an_abort_where_cgroups_are_allowed(home: Home) -> None:
    check_daemons_end_with_an_abort(home)


@pytest.mark.root
@pytest.mark.skipif(cgroups.find_parent() is None, reason="no cgroup can be made here")
def test_even_a_daemon_ends_with_its_agent_where_cgroups_are_allowed(home: Home) -> None:
    run = home.submit(*daemon_command(home, "sleep 1000"))
    pids = daemons(home)
    os.kill(home.agent(run), signal.SIGKILL)
    seen = home.wait(run)[0]
    assert (seen["state"], seen["reason"]) == ("lost", "node-failure")
    assert home.left_over() == {}
    assert not any(map(is_running, pids))


@pytest.mark.root
def test_daemons_end_with_an_abort_where_cgroups_are_not(nobody: Home) -> None:
    check_daemons_end_with_an_abort(nobody)


@pytest.mark.root
def test_daemons_end_with_the_run_where_cgroups_are_not(nobody: Home) -> None:
    check_daemons_end_with_the_run(nobody)


@pytest.mark.root
def test_processes_end_with_their_agent_where_cgroups_are_not(nobody: Home) -> None:
    check_processes_end_with_their_agent(nobody)


def test_daemons_end_with_an_abort(home: Home) -> None:
    check_daemons_end_with_an_abort(home)


def test_daemons_end_with_the_run(home: Home) -> None:
    check_daemons_end_with_the_run(home)


def test_processes_end_with_their_agent(home: Home) -> None:
    check_processes_end_with_their_agent(home)


def test_a_background_child_does_not_keep_a_run_alive(home: Home) -> None:
    run = home.finish("sh", "-c", "sleep 1000 & echo done")
    assert (run["state"], home.log(run["id"])) == ("succeeded", "done\n")
    assert home.left_over() == {}
