"""Cgroups where the machine allows them: joined, emptied, removed; and a plain no where it does not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import until

from gofer.node import cgroups

PARENT = cgroups.find_parent()


@pytest.fixture
def group() -> Iterator[str]:
    if PARENT is None:
        pytest.skip("no cgroup can be made here")
    path = cgroups.create(os.path.join(PARENT, f"gofer-test-{os.getpid()}"))
    assert path is not None
    yield path
    assert cgroups.kill(path)
    assert not os.path.exists(path)


def start_inside(group: str, script: str) -> subprocess.Popen[bytes]:
    one = subprocess.Popen(["sh", "-c", f"echo 0 > {group}/cgroup.procs && {script}"], start_new_session=True)
    until(lambda: one.pid in cgroups.members(group), "the process in the group")
    return one


@pytest.mark.root
def test_everything_in_the_group_ends_at_once(group: str) -> None:
    one = start_inside(group, "trap '' TERM; setsid sleep 1000 & setsid sleep 1000 & wait")
    until(lambda: len(cgroups.members(group)) == 3, "all three in the group")
    assert cgroups.kill(group)
    assert one.wait(timeout=60) == -9
    assert cgroups.members(group) == []


@pytest.mark.root
def test_others_are_ended_and_the_spared_are_not(group: str) -> None:
    first, second = start_inside(group, "exec sleep 1000"), start_inside(group, "exec sleep 1000")
    cgroups.kill_others(group, spared=[first.pid])
    assert second.wait(timeout=60) == -9
    assert first.poll() is None
    cgroups.kill(group)
    assert first.wait(timeout=60) == -9


@pytest.mark.root
def test_making_a_group_again_takes_the_one_that_is_there(group: str) -> None:
    assert cgroups.create(group) == group


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    assert cgroups.members(absent) == []
    assert cgroups.kill(absent)
    assert cgroups.join(absent) is False
    cgroups.remove(absent)


def test_a_machine_that_refuses(tmp_path: Path) -> None:
    assert cgroups.create(str(tmp_path / "absent" / "below")) is None
