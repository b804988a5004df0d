"""Which agents are in use: those that a process of this machine names as gofer does, and no others."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from gofer.core import prune

NAME = os.urandom(8).hex()
LONG_AGO = time.time() - 60 * 86400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    agent = tmp_path / "home" / "agent" / NAME
    agent.mkdir(parents=True)
    os.utime(agent, (LONG_AGO, LONG_AGO))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("word", "is_needed"),
    [
        (NAME, True),
        (f"HOME/agent/{NAME}", True),
        (f"LINK/agent/{NAME}", True),
        (f"HOME/agent/{NAME}/gofer/agent/x.py", True),
        (f"/elsewhere/agent/{NAME}", False),
        (f"HOME/agent/{NAME}0", False),
        (f"--note=00{NAME}00", False),
        (f"see agent/{NAME}", False),
    ],
    ids=["bare", "path", "through a link", "below", "another home", "longer", "in a word", "in a sentence"],
)
def test_an_agent_that_a_process_was_started_from_stays(folder: Path, word: str, is_needed: bool) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    named = word.replace("HOME", str(folder)).replace("LINK", str(link))
    argv = ["sh", "-c", "echo up; read line", "sh", named]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        found = [one.name for one in prune.agents(str(folder), "", time.time() - 1)]
        removed = prune.remove_agent(str(folder), "", NAME, time.time() - 1)
        process.communicate(timeout=60)
    assert (found, removed) == (([], False) if is_needed else ([NAME], True))
    assert (folder / "agent" / NAME).exists() == is_needed


@pytest.mark.parametrize(
    ("name", "is_needed"),
    [(NAME, True), (f"{NAME}0", False), (f"0{NAME}", False)],
    ids=["same", "longer", "before"],
)
def test_an_agent_that_a_job_will_start_stays(folder: Path, name: str, is_needed: bool) -> None:
    room = folder / "slurm" / "r260101-000000-bbbbbb"
    room.mkdir(parents=True)
    (room / "job.sh").write_text(f'agent="${{room%/slurm/*}}/agent/{name}"\ncd "$agent" || exit 1\n')
    assert bool(list(prune.agents(str(folder), "", time.time() - 1))) != is_needed
