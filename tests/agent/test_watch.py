"""An agent's watch over real processes: their ends, requests, limits and grace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gofer.node import watch

# Starts the scripts it is given, watches them like an agent, and prints the outcome.
HARNESS = """
import json, os, sys, time
from gofer.core import processes
from gofer.node.watch import Watch
given = json.loads(sys.argv[1])
processes.adopt_orphans()
ours, theirs = os.pipe()
watch = Watch(ours, lambda: print("orphaned", flush=True))
watch.begin()
pids = {}
for rank, script in enumerate(given["scripts"]):
    to_stderr = [(os.POSIX_SPAWN_DUP2, 2, 1)]
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ, file_actions=to_stderr, setsid=True)
    pids[pid] = rank
print("ready", flush=True)
limit = given.get("limit_s")
outcome = watch.run(pids, None, limit_at=None if limit is None else time.monotonic() + limit,
                    grace_s=given.get("grace_s", 30.0), tick=lambda: 0.5)
first = outcome.first_failure
ended = sorted([one.rank, one.exit_code, one.signal] for one in outcome.ended)
found = {"ended": ended, "first": first and first.rank, "cause": outcome.cause, "failed": watch.has_failed}
print(json.dumps(found), flush=True)
os._exit(0)
"""
IGNORE = "trap '' TERM; echo up; while :; do sleep 0.05; done"


class Watched:
    """A process that watches these scripts."""

    def __init__(self, *scripts: str, **options: Any) -> None:
        words = [sys.executable, "-c", HARNESS, json.dumps({"scripts": scripts, **options})]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.out, self.err = self.process.stdout, self.process.stderr
        assert self.out.readline() == b"ready\n"

    def until_said(self, word: bytes) -> None:
        """Wait until one of the scripts has written this line."""
        while (line := self.err.readline().strip()) != word:
            assert line or self.process.poll() is None

    def ask(self, number: int) -> None:
        self.process.send_signal(number)

    def outcome(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.readline())
        self.process.wait(timeout=60)
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.out, self.err):
            pipe.close()


@pytest.fixture
def watching() -> Iterator[Any]:
    made: list[Watched] = []

    def start(*scripts: str, **options: Any) -> Watched:
        made.append(Watched(*scripts, **options))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_ends_are_exact(watching: Any) -> None:
    found = watching("exit 0", "sleep 0.1; exit 0").outcome()
    assert found == {"ended": [[0, 0, None], [1, 0, None]], "first": None, "cause": None, "failed": False}


def test_the_first_failure_stops_the_others(watching: Any, tmp_path: Path) -> None:
    last = f"trap 'exit 9' TERM; touch {tmp_path}/up; sleep 100 & wait"
    fails = f"until [ -e {tmp_path}/up ]; do sleep 0.05; done; exit 7"
    found = watching("sleep 100", fails, last).outcome()
    assert found["ended"] == [[0, None, signal.SIGTERM], [1, 7, None], [2, 9, None]]
    assert (found["first"], found["cause"], found["failed"]) == (1, None, True)


def test_a_request_stops_all_and_names_its_cause(watching: Any) -> None:
    causes = {
        watch.STOP: "user",
        watch.STOP_PATIENTLY: "user",
        watch.STOP_FOR_PEER: "peer",
        signal.SIGTERM: "shutdown",
    }
    for number, cause in causes.items():
        one = watching("trap 'exit 4' TERM; sleep 100 & sleep 0.3; echo up; wait")
        one.until_said(b"up")
        one.ask(number)
        assert one.outcome() == {"ended": [[0, 4, None]], "first": None, "cause": cause, "failed": False}


def test_the_limit_stops_all(watching: Any) -> None:
    found = watching("sleep 100", limit_s=0.3).outcome()
    assert (found["ended"], found["cause"]) == ([[0, None, signal.SIGTERM]], "time-limit")


def test_grace_is_over_some_time(watching: Any) -> None:
    one = watching(IGNORE, grace_s=0.5)
    one.until_said(b"up")
    one.ask(watch.STOP)
    assert one.outcome()["ended"] == [[0, None, signal.SIGKILL]]


def test_a_patient_caller_decides_when_the_wait_ends(watching: Any) -> None:
    one = watching(IGNORE, grace_s=0.0)
    one.until_said(b"up")
    one.ask(watch.STOP_PATIENTLY)
    time.sleep(1.0)
    assert one.process.poll() is None
    one.ask(watch.STOP_NOW)
    found = one.outcome()
    assert (found["ended"], found["cause"]) == ([[0, None, signal.SIGKILL]], "user")


def test_two_requests_that_come_together_are_two(watching: Any) -> None:
    one = watching(IGNORE, grace_s=1000.0)
    one.until_said(b"up")
    one.ask(signal.SIGSTOP)  # both are pending when the process continues
    one.ask(watch.STOP)
    one.ask(watch.STOP_NOW)
    one.ask(signal.SIGCONT)
    assert one.outcome()["ended"] == [[0, None, signal.SIGKILL]]


def test_an_abort_by_a_user_counts_more_than_a_failed_peer(watching: Any) -> None:
    one = watching("trap 'sleep 0.5; exit 4' TERM; sleep 100 & sleep 0.3; echo up; wait")
    one.until_said(b"up")
    one.ask(signal.SIGSTOP)
    one.ask(watch.STOP_FOR_PEER)
    one.ask(watch.STOP)
    one.ask(signal.SIGCONT)
    assert one.outcome()["cause"] == "user"


def test_what_a_rank_leaves_in_its_group_has_the_same_grace(watching: Any, tmp_path: Path) -> None:
    """The shell dies of SIGTERM at once, what it had started saves first."""
    mark = tmp_path / "saved"
    child = f"trap 'sleep 0.7; touch {mark}; exit' TERM; sleep 100 & sleep 0.3; echo up; wait"
    one = watching(f'sh -c "{child}"; true')
    one.until_said(b"up")
    one.ask(watch.STOP)
    assert one.outcome()["ended"] == [[0, None, signal.SIGTERM]]
    assert mark.exists()


def test_a_group_that_does_not_end_is_not_waited_for_longer_than_its_grace(watching: Any) -> None:
    one = watching(f'sh -c "{IGNORE}"; true', grace_s=0.5)
    one.until_said(b"up")
    one.ask(watch.STOP)
    assert one.outcome()["ended"] == [[0, None, signal.SIGTERM]]


def test_signals_of_programs_among_themselves_are_passed_on(watching: Any) -> None:
    for name in ("USR1", "USR2", "HUP"):
        one = watching(f"trap 'exit 5' {name}; sleep 100 & sleep 0.3; echo up; wait")
        one.until_said(b"up")
        one.ask(getattr(signal, f"SIG{name}"))
        assert one.outcome()["ended"] == [[0, 5, None]]


def test_an_idle_agent_ends_when_it_is_stopped() -> None:
    """A request that is blocked since before the fork, as the supervisor does it, waits and is not lost."""
    signal.pthread_sigmask(signal.SIG_BLOCK, watch.REQUESTS)
    try:
        pid = os.fork()
        if pid == 0:
            time.sleep(0.3)
            watch.Watch(-1, lambda: None)
            time.sleep(100)
            os._exit(9)
        os.kill(pid, watch.STOP_FOR_PEER)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watch.REQUESTS)
    assert os.waitpid(pid, 0)[1] == 0
