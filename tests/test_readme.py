"""The tour in the README is what gofer does: every `$ ` line is typed, and what it shows is compared."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_EXITS = re.compile(r"\s+# exits (\d+)$")


class Step:
    """One typed line, the status it should exit with, and the lines the README shows below it."""

    def __init__(self, line: str) -> None:
        exits = _EXITS.search(line)
        self.command = _EXITS.sub("", line)
        self.status = int(exits[1]) if exits else 0
        self.shown: list[str] = []


def _steps() -> list[Step]:
    steps: list[Step] = []
    for block in _BLOCK.findall((ROOT / "README.md").read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append(Step(line[2:]))
            else:
                steps[-1].shown.append(line)
    return steps


def _matches(shown: list[str], output: str) -> bool:
    """`…` alone on a line is any number of lines, inside a line any text."""
    if not shown:
        return True
    parts = []
    for line in shown:
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*".join(re.escape(piece) for piece in line.split("…")) + r"\s*\n")
    return (
        re.fullmatch("".join(parts), output if output.endswith("\n") or not output else output + "\n")
        is not None
    )


@pytest.mark.timeout(900)
def test_the_tour_of_the_readme(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "project" / "examples")
    environ = {
        **os.environ,
        "GOFER_HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    folder = tmp_path / "project"
    steps = _steps()
    assert len(steps) > 10
    for step in steps:
        if step.command.startswith("cd "):
            folder = (folder / step.command[3:]).resolve()
            continue
        done = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == step.status, f"$ {step.command}\n{done.stdout}\n{done.stderr}"
        assert _matches(step.shown, done.stdout), (
            f"$ {step.command}\n{done.stdout}\nbut the README shows\n{step.shown}"
        )


@pytest.mark.parametrize(
    ("shown", "output", "same"),
    [
        (["a …"], "a b\n", True),
        (["a …"], "b a\n", False),
        (["…", "end"], "x\ny\nend\n", True),
        (["…", "end"], "x\ny\nend\nmore\n", False),
        (["only"], "", False),
    ],
)
def test_the_comparison_can_fail(shown: list[str], output: str, same: bool) -> None:
    assert _matches(shown, output) is same
