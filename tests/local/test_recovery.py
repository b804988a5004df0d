"""After a restart of the machine, a lost queue, or real want of memory."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from home import Home, until
from memory_group import eating
from memory_group import small_group as small_group

from gofer.queue.database import OWN_GRACE


def rewrite_boot(home: Home) -> None:
    with closing(sqlite3.connect(home.queue_home / "queue.db")) as queue, queue:
        queue.execute("UPDATE runs SET boot = 'the boot before this one'")


@pytest.fixture
def bystander(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has, in a session of its own, nothing to do with gofer."""
    one = subprocess.Popen(["sleep", "1000"], cwd="/", env={}, start_new_session=True)
    yield one
    one.kill()
    one.wait()


@pytest.mark.parametrize("retries", ["0", "1"])
def test_a_restart_of_the_machine(home: Home, bystander: subprocess.Popen[bytes], retries: str) -> None:
    """After it, the pids in the run's records are those of others, who must be left in peace."""
    run = home.submit("--retries", retries, "sh", "-c", '[ "$GOFER_ATTEMPT" = 2 ] || sleep 1000')
    home.until_event(run, "started")
    home.kill_all()
    rewrite_boot(home)
    events = home.run_folder(run) / "attempts/1/node-0/events.jsonl"
    old = home.until_event(run, "started")["pids"]["0"]
    events.write_text(events.read_text().replace(f'"0":{old}', f'"0":{bystander.pid}'))
    assert home.until_event(run, "started")["pids"]["0"] == bystander.pid

    seen = home.wait(run)[0]
    assert bystander.poll() is None
    first = seen["attempts"][0]
    assert (first["state"], first["reason"]) == ("lost", "node-failure")
    assert first["detail"] == "the machine restarted"
    assert seen["state"] == ("lost" if retries == "0" else "succeeded")
    assert len(seen["attempts"]) == 1 + int(retries)


def damage_queue(home: Home) -> None:
    for path in home.queue_home.glob("queue.db*"):
        path.write_bytes(b"no database" * 1000)


def test_a_run_that_ended_before_the_queue_was_lost_keeps_its_end(home: Home) -> None:
    run = home.finish("sh", "-c", "exit 3")["id"]
    until(lambda: not home.processes(), "every process to leave")
    damage_queue(home)
    second = home.finish("true")
    assert second["state"] == "succeeded"
    assert home.view(run)["exit_code"] == 3
    assert [path for path in home.queue_home.iterdir() if ".damaged-" in path.name]


def test_a_run_that_runs_when_the_queue_is_lost_is_not_started_again(home: Home) -> None:
    gate, count = home.root / "gate", home.root / "count"
    run = home.submit("sh", "-c", f"echo once >> {count}; until [ -e {gate} ]; do sleep 0.05; done; exit 4")
    home.until_event(run, "started")
    os.kill(until(lambda: home.supervisor() or 0, "its supervisor"), signal.SIGKILL)
    damage_queue(home)
    done = home.gofer("q", run)  # finds that the queue does not know it, and sends it again
    gate.touch()
    seen = home.wait(run)[0]
    assert count.read_text() == "once\n", done.err
    assert (seen["state"], seen["reason"], seen["exit_code"]) == ("failed", "exit-code", 4)
    assert len(seen["attempts"]) == 1


def test_a_run_that_waited_when_the_queue_was_lost_is_started_once(home: Home) -> None:
    gate, count = home.root / "gate", home.root / "count"
    cores = str(len(os.sched_getaffinity(0)))
    first = home.submit("--cpus", cores, "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    second = home.submit("--cpus", cores, "sh", "-c", f"echo once >> {count}")
    home.until_event(first, "started")
    os.kill(until(lambda: home.supervisor() or 0, "its supervisor"), signal.SIGKILL)
    damage_queue(home)
    gate.touch()
    assert [run["state"] for run in home.wait(first, second)] == ["succeeded", "succeeded"]
    assert count.read_text() == "once\n"


def test_a_late_stop_of_an_ended_run_leaves_the_next_run_of_its_agent_alone(home: Home) -> None:
    """A supervisor was killed while the next run had the agent, and before the end of the first was saved."""
    gate = home.root / "gate"
    first = home.finish("sh", "-c", "exit 3")["id"]
    second = home.submit("sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    home.until_event(second, "started")
    os.kill(until(lambda: home.supervisor() or 0, "its supervisor"), signal.SIGKILL)
    with closing(sqlite3.connect(home.queue_home / "queue.db")) as queue, queue:
        queue.execute(
            "UPDATE runs SET state = 'running', attempts = '[]', ended_at = NULL, cancel_grace_s = ?,"
            " (agents, boot) = (SELECT agents, boot FROM runs WHERE id = ?) WHERE id = ?",
            (OWN_GRACE, second, first),
        )

    def state_in_queue() -> str:
        with closing(sqlite3.connect(home.queue_home / "queue.db")) as queue:
            return str(queue.execute("SELECT state FROM runs WHERE id = ?", (first,)).fetchone()[0])

    home.gofer("q", second)
    until(lambda: state_in_queue() == "failed", "the end of the first run")
    gate.touch()
    assert home.wait(second)[0]["state"] == "succeeded"


# -- memory


@pytest.mark.root
def test_a_command_that_the_kernel_ends_for_lack_of_memory(home: Home, small_group: Path) -> None:
    run = home.finish("sh", "-c", eating(small_group))
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "out-of-memory", 137)
    assert "out of memory" in home.gofer("q", run["id"]).out


@pytest.mark.root
def test_a_child_that_the_kernel_ends_for_lack_of_memory(home: Home, small_group: Path) -> None:
    """The shell in between says 137 and is no signal's victim itself."""
    run = home.finish("sh", "-c", f"({eating(small_group)}); exit $?")
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "out-of-memory", 137)


@pytest.mark.root
def test_the_lack_of_memory_is_named_however_long_the_other_ranks_take_to_stop(
    home: Home, small_group: Path
) -> None:
    slow = "trap 'sleep 4; exit 0' TERM; sleep 1000 & wait"
    run = home.finish(
        "--procs",
        "2",
        "--grace",
        "20s",
        "sh",
        "-c",
        f'if [ "$RANK" = 1 ]; then {eating(small_group)}; fi; {slow}',
    )
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "out-of-memory", 137)
    assert run["first_failure"]["rank"] == 1


@pytest.mark.root
@pytest.mark.parametrize("kill", ["kill -9 $$", "sh -c 'kill -9 $$'; exit $?"], ids=["rank", "child"])
def test_a_kill_is_a_signal_while_the_kernel_ends_another_process_for_lack_of_memory(
    home: Home, small_group: Path, tmp_path: Path, kill: str
) -> None:
    up, gate = tmp_path / "up", tmp_path / "gate"
    run = home.submit("sh", "-c", f"touch {up}; until [ -e {gate} ]; do sleep 0.02; done; {kill}")
    until(up.exists, "the run to be up")
    other = subprocess.run(["sh", "-c", eating(small_group)], timeout=60, check=False)
    gate.touch()
    (ended,) = home.wait(run)
    assert other.returncode == -signal.SIGKILL
    assert (ended["reason"], ended["exit_code"]) == ("signal" if "exit" not in kill else "exit-code", 137)


def test_a_plain_kill_is_not_taken_for_a_lack_of_memory(home: Home) -> None:
    run = home.finish("sh", "-c", "kill -9 $$")
    assert (run["reason"], run["exit_code"]) == ("signal", 137)
