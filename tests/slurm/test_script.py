"""The scripts for `sbatch`, as golden files: `GOLDEN=write` rewrites them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from slurm.records import record

from gofer.backends.slurm.options import SlurmOptions
from gofer.backends.slurm.plan import make_request, render
from gofer.model.job import Array
from gofer.model.run import RunRecord

GOLDEN = Path(__file__).with_name("golden")
STORE = "/shared/the store"


def script(run: RunRecord, **options: Any) -> str:
    result = SlurmOptions(**options)
    asked = run.job.resources.cpus is not None
    return render(make_request(run, result, store=STORE), result, agent="0123456789abcdef", cpus_asked=asked)


EVERYTHING: dict[str, Any] = {
    "partition": "gpu,long",
    "account": "research",
    "qos": "urgent",
    "constraint": "a100&nvlink",
    "gpus_per_node": 4,
    "gpu_type": "a100",
    "gres": "nvme:1",
    "cpus_per_gpu": 8,
    "mem_per_gpu": "60G",
    "time": 3600.0,
    "reservation": "course",
    "nodelist": "n[1-2]",
    "exclude": "n7",
    "signal": "USR1@120",
    "requeue": False,
    "extra": ("--exclusive", '--comment="two words"'),
    "modules": ("cuda/12.4", "gcc"),
    "prelude": "export NCCL_DEBUG=INFO\nulimit -c 0\n",
    "python": "/opt/python 3/bin/python3",
}
ROWS = Array(("x",), tuple((str(number),) for number in range(1000)))
CASES = {
    "plain": (record("echo", "hi"), {}),
    "two-nodes": (
        record("python", "train.py", gpus=8, grace_s=30.0, time_limit_s=5400.0),
        {"gpus_per_node": 4},
    ),
    "everything": (record("python", "train.py", gpus=8), EVERYTHING),
    "array": (
        record("echo", "{x}", array=ROWS),
        {"array_limit": 50, "mem_per_node": "4G", "cpus_per_node": 2},
    ),
    "own-cpus": (record("make", cpus=3, procs=2), {"cpus_per_node": 16}),
    "pyxis": (
        record("python", "train.py", gpus=4),
        {"container": "nvcr.io#nvidia/pytorch:24.08-py3", "container_mounts": ("/data", "/a:/b")},
    ),
    "apptainer": (
        record("python", "train.py", gpus=4),
        {
            "container": "/images/torch 2.sif",
            "container_runtime": "apptainer",
            "container_mounts": ("/data",),
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_script_is_as_it_was(name: str) -> None:
    run, options = CASES[name]
    found, path = script(run, **options), GOLDEN / f"{name}.sh"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.parametrize("name", CASES)
def test_bash_can_read_it(name: str) -> None:
    run, options = CASES[name]
    done = subprocess.run(
        ["bash", "-n"], input=script(run, **options), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_has_every_option_for_slurm() -> None:
    text = script(record("true", gpus=8), **EVERYTHING)
    for name in ("partition", "account", "qos", "constraint", "reservation", "nodelist", "exclude", "signal"):
        assert re.search(rf"^#SBATCH --{name}=", text, re.MULTILINE), name


def test_slurms_limit_comes_after_gofers() -> None:
    text = script(record("true", time_limit_s=90.0, grace_s=10.0))
    minutes = re.search(r"--time=(\d+)$", text, re.MULTILINE)
    assert minutes and int(minutes[1]) * 60 >= 90 + 10 + 60


def test_the_signal_comes_before_gofers_limit() -> None:
    """Slurm counts from its own limit, which is later."""
    text = script(record("true", time_limit_s=600.0, grace_s=10.0), signal="USR1@60")
    minutes, before = re.search(r"--time=(\d+)", text), re.search(r"--signal=USR1@(\d+)", text)
    assert minutes and before and int(minutes[1]) * 60 - int(before[1]) == 600 - 60


def test_no_word_of_the_job_is_in_the_script() -> None:
    """Commands and variables go another way, so no quoting can go wrong."""
    run = record("sh", "-c", "$(reboot)", env={"A": "`reboot`"}, setup="reboot", tags={"t": "reboot"})
    assert "reboot" not in script(run)


def test_references_are_not_in_the_request() -> None:
    run = record("true", env={"TOKEN": "${secret:token}", "PLAIN": "x"})
    assert make_request(run, SlurmOptions(), store=None).env == {"PLAIN": "x"}
