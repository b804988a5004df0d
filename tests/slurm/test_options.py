"""The options of a target: what is taken, what is refused, and that the page has them all."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from home import Home

from gofer.backends.slurm.options import SlurmOptions

PAGE = Path(__file__).parents[2] / "docs" / "slurm.md"


def test_every_option_is_on_the_page_and_no_other() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    entries = [name for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert sorted(entries) == sorted(field.name for field in msgspec.structs.fields(SlurmOptions))


@pytest.mark.parametrize(
    "options",
    [
        "partition: 'two words'",
        "gpus_per_node: many",
        "signal: TERM@60",
        "mem_per_node: lots",
        "time: soon",
        "container_runtime: docker",
        "login: '-oProxyCommand=x'",
        "nonsense: 1",
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(home: Home, options: str) -> None:
    home.configure(f"targets:\n  lab: {{kind: slurm, {options}}}\n")
    message = home.gofer("target", "show", "lab", status=2).err
    assert "gofer.yaml:2" in message


def test_gpus_need_to_be_known(home: Home) -> None:
    home.configure("targets:\n  lab: {kind: slurm}\n")
    message = home.gofer("-t", "lab", "-n", "2", "submit", "--no-code", "true", status=1).err
    assert "hint: set `gpus_per_node:` in the target" in message


def test_a_machine_without_slurm_is_named(home: Home) -> None:
    home.configure("targets:\n  lab: {kind: slurm}\n")
    home.environ["PATH"] = "/nonexistent"
    message = home.gofer("-t", "lab", "submit", "--no-code", "true", status=1).err
    assert "Slurm is not installed on this machine" in message and "`login: user@host`" in message


def test_the_plan_is_printed_without_a_cluster(home: Home) -> None:
    home.configure("targets:\n  lab: {kind: slurm, gpus_per_node: 4, partition: gpu}\n")
    home.environ["PATH"] = "/nonexistent"
    output = home.gofer("-t", "lab", "-n", "8", "submit", "--no-code", "--dry-run", "echo", "a b").out
    assert "#SBATCH --nodes=2" in output and "#SBATCH --gres=gpu:4" in output
    assert output.endswith("# runs on each rank: echo 'a b'\n")
