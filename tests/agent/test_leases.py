"""GPUs of one machine between queues that know nothing of each other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gofer.agent import processes
from gofer.agent.leases import Leases
from gofer.agent.processes import Identity


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for the agent of a run."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def identity(process: subprocess.Popen[bytes]) -> Identity:
    found = processes.identify(process.pid)
    assert found is not None
    return found


def test_a_gpu_has_one_holder_and_is_free_when_its_agent_is_dead(
    tmp_path: Path, agent: subprocess.Popen[bytes]
) -> None:
    ann, bob = (Leases(str(tmp_path / "d" / "host"), name) for name in ("ann", "bob"))
    who = identity(agent)
    assert ann.take({0: who, 1: who})
    assert bob.taken_by_others() == {0, 1}
    assert not bob.take({1: who, 2: who})
    assert bob.take({2: who})
    ann.release([0])
    assert bob.taken_by_others() == {1}
    agent.kill()
    agent.wait()
    assert bob.take({1: identity_of_self()})
    assert ann.taken_by_others() == {1}


def identity_of_self() -> Identity:
    found = processes.identify(os.getpid())
    assert found is not None
    return found


def test_who_holds_more_lets_those_go_first_who_wait_with_less(tmp_path: Path) -> None:
    me = identity_of_self()
    ann, bob = (Leases(str(tmp_path / "d" / "host"), name) for name in ("ann", "bob"))
    assert ann.take({0: me, 1: me})
    bob.wait()
    ann.release([1])
    assert not ann.take({1: me})
    assert 3 in ann.taken_by_others()
    assert bob.take({1: me})
    assert ann.take({2: me})


def test_everybody_may_write_and_a_damaged_file_holds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "d" / "host"
    old = os.umask(0o077)
    try:
        assert Leases(str(folder), "ann").take({0: identity_of_self()})
    finally:
        os.umask(old)
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder, folder / "leases")] == [
        0o777,
        0o777,
        0o666,
    ]
    (folder / "leases").write_bytes(b'{"gpus": {"0"')
    assert Leases(str(folder), "bob").taken_by_others() == set()
