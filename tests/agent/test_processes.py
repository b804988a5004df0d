"""Facts about real processes, and ending all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import until

from gofer.core import processes
from gofer.core.processes import ProcessIdentity, Stat


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    one = subprocess.Popen(["sleep", "300"], env={"MARK": "here", "PATH": os.defpath}, start_new_session=True)
    yield one
    one.kill()
    one.wait()


def test_a_process_is_known_by_pid_and_start(sleeper: subprocess.Popen[bytes]) -> None:
    who = processes.identify(sleeper.pid)
    assert who is not None
    assert processes.is_alive(who)
    assert not processes.is_alive(ProcessIdentity(who.pid, who.start + 1))
    assert not processes.send(ProcessIdentity(who.pid, who.start + 1), signal.SIGKILL)
    assert sleeper.poll() is None
    assert processes.send(who, signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL
    assert not processes.send(who, signal.SIGKILL)


def test_a_dead_process_that_nobody_collected_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    who = processes.identify(sleeper.pid)
    assert who is not None
    os.kill(sleeper.pid, signal.SIGKILL)
    until(lambda: not processes.is_alive(who), "its end")
    assert sleeper.returncode is None  # still not collected
    assert processes.stat(sleeper.pid) is not None
    assert processes.identify(sleeper.pid) is None


def test_a_name_with_parentheses_does_not_confuse(tmp_path_factory: pytest.TempPathFactory) -> None:
    odd = tmp_path_factory.mktemp("odd") / "a) b (c"
    odd.symlink_to("/bin/sleep")
    one = subprocess.Popen([str(odd), "300"], start_new_session=True)
    try:
        until(lambda: Path(f"/proc/{one.pid}/comm").read_text() == "a) b (c\n", "the new program")
        found = processes.stat(one.pid)
        assert found is not None
        assert (found.parent, found.session) == (os.getpid(), one.pid)
    finally:
        one.kill()
        one.wait()


def test_processes_are_found_by_a_variable(sleeper: subprocess.Popen[bytes]) -> None:
    table = processes.all_processes()
    until(lambda: sleeper.pid in processes.having_environment("MARK=here", table), "its environment")
    for other in ("MARK=her", "ARK=here", "MARK=here2", "MARK"):
        assert sleeper.pid not in processes.having_environment(other, table)


def test_descendants_of_a_table() -> None:
    table = {pid: Stat(parent, 0, "S", 0) for pid, parent in [(2, 1), (3, 2), (4, 3), (5, 1), (6, 9)]}
    assert processes.descendants(1, table) == {2, 3, 4, 5}
    assert processes.descendants(2, table) == {3, 4}
    assert processes.descendants(7, table) == set()
    assert processes.descendants(1, table, spared=[3]) == {2, 5}


def test_a_table_with_a_circle_ends() -> None:
    """Read while processes come and go, parents may seem to form one."""
    table = {2: Stat(3, 0, "S", 0), 3: Stat(2, 0, "S", 0)}
    assert processes.descendants(2, table) == {2, 3}


FORKER = """
import os, time
end = time.monotonic() + 100
while time.monotonic() < end:  # each process lives for a moment and leaves a child that does the same
    if os.fork():
        os._exit(0)
    time.sleep(0.05)
"""


def test_even_a_process_that_keeps_forking_is_ended() -> None:
    one = subprocess.Popen([sys.executable, "-c", FORKER], start_new_session=True)
    session = one.pid
    one.wait()

    def members(table: dict[int, Stat]) -> set[int]:
        return {pid for pid, found in table.items() if found.session == session}

    assert processes.kill_until_gone(members, timeout_s=90.0) == set()
    assert not [
        found
        for found in processes.all_processes().values()
        if found.session == session and found.state != "Z"
    ]


def test_what_cannot_be_ended_in_time_is_returned(sleeper: subprocess.Popen[bytes]) -> None:
    assert processes.kill_until_gone(lambda table: {sleeper.pid}, timeout_s=-1.0) == {sleeper.pid}
    assert sleeper.poll() is None
