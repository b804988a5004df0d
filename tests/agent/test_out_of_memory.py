"""Each kind of the kernel's evidence, by a process that the kernel really kills for lack of memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from memory_group import EAT
from memory_group import small_group as small_group

JOB = str(os.getpid())
# Prints whether a kill is explained: the real one, one of a small process, and one of another process.
WATCH = f"""
import os
from gofer.node.out_of_memory import Kills
from gofer.node.watch import ProcessEnd

kills = Kills()
child = os.fork()
if child == 0:
    exec({EAT!r})
_, status, used = os.wait4(child, 0)
real = ProcessEnd(0, child, None, os.WTERMSIG(status), 0.0, used.ru_maxrss)
for one in (real, real._replace(peak_kib=5000), real._replace(pid=1)):
    print(kills.explain(one, [one]))
"""
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc"]


def answers(group: Path, prefix: list[str]) -> list[str]:
    into = f'echo 0 > {group}/cgroup.procs; exec "$@"'
    argv = ["sh", "-c", into, "sh", *prefix, sys.executable, "-c", WATCH]
    environ = {**os.environ, "SLURM_JOB_ID": JOB}
    return subprocess.run(
        argv, env=environ, capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()


@pytest.mark.root
@pytest.mark.parametrize("small_group", [f"job_{JOB}"], indirect=True, ids=["job"])
def test_the_count_of_the_runs_own_group_decides(small_group: Path) -> None:
    assert answers(small_group, CONTAINER) == ["True", "True", "True"]


@pytest.mark.root
def test_the_count_of_the_machine_needs_a_process_that_held_much(small_group: Path) -> None:
    assert answers(small_group, CONTAINER) == ["True", "False", "True"]


@pytest.mark.root
def test_the_kernel_log_names_the_process(small_group: Path) -> None:
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("the kernel log cannot be read here")
    assert answers(small_group, []) == ["True", "True", "False"]
