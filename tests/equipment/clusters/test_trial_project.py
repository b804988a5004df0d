"""`make ssh-up` and `make slurm-up` print lines that work as they are printed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from home import Home

pytestmark = ON_SLURM
TESTS = str(Path(__file__).resolve().parents[2])


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, since sockets are in it."""
    made = Path(tempfile.mkdtemp(prefix="gofer-up-"))
    yield made / "it"
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


def clusters(kind: str, verb: str, folder: Path) -> str:
    argv = [sys.executable, "-m", "clusters", kind, verb, "--dir", str(folder)]
    env = {**os.environ, "PYTHONPATH": TESTS}
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=200, check=True).stdout


@pytest.mark.parametrize(
    ("kind", "last", "found"),
    [("ssh", "gofer submit", "rank 0 of 1 on hostb"), ("slurm", "gofer -n 8 submit", "rank 0 of 8 on ")],
)
def test_what_up_prints_works_as_it_is(home: Home, folder: Path, kind: str, last: str, found: str) -> None:
    printed = clusters(kind, "up", folder)
    try:
        lines = [line for line in printed.splitlines() if not line.startswith("#")]
        assert lines[0] == f". {folder}/exports.sh" and lines[1].startswith(f"cd {folder}/project ")
        assert [line.startswith("gofer ") for line in lines[2:]] == [True] * 3
        done = subprocess.run(
            ["bash", "-e"],
            input="\n".join(lines),
            env=home.environ,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert last in printed and found in done.stdout
    finally:
        assert "ended and removed" in clusters(kind, "down", folder)
    assert not folder.exists()
