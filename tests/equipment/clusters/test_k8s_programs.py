"""The programs of the Kubernetes cluster are built once, and every later use finds them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from clusters.cells import call
from clusters.errors import ClusterError
from clusters.k8s.cache import make_once
from clusters.k8s.programs import APPLETS, programs, version

_MAKE = """
import os, sys, time
from pathlib import Path
from clusters.k8s.cache import make_once

def make(part):
    part.mkdir()
    (part / str(os.getpid())).touch()
    print("making", flush=True)
    sys.stdin.read()

make_once(Path(sys.argv[1]), make)
"""


def test_the_client_says_the_version_of_the_modules() -> None:
    said = json.loads(call(str(programs() / "kubectl"), "version", "--client", "-o", "json"))
    assert said["clientVersion"]["gitVersion"] == f"v{version()}"


@pytest.mark.parametrize("name", APPLETS)
def test_each_part_is_a_name_of_one_program(name: str) -> None:
    # etcd prints its help on stderr.
    done = subprocess.run(
        [programs() / name, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert name in done.stdout + done.stderr


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"exited 2.*kube-scheduler"):
        call(str(programs() / "k8s"), "kube-nothing")


def test_programs_that_are_there_need_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    known = programs()
    monkeypatch.setenv("PATH", "/nowhere")
    assert programs() == known


def test_two_processes_make_a_file_once(tmp_path: Path) -> None:
    path = tmp_path / "made"
    first = _start(path)
    assert first.stdout
    assert first.stdout.readline() == "making\n"
    second = _start(path)
    for child in (first, second):
        child.communicate(timeout=60)
    assert [child.returncode for child in (first, second)] == [0, 0]
    assert [entry.name for entry in path.iterdir()] == [str(first.pid)]


def test_a_killed_maker_leaves_nothing_to_use(tmp_path: Path) -> None:
    path = tmp_path / "made"
    child = _start(path)
    assert child.stdout
    assert child.stdout.readline() == "making\n"
    child.kill()
    child.communicate(timeout=60)
    assert not path.exists()
    assert make_once(path, Path.touch).is_file()


def _start(path: Path) -> subprocess.Popen[str]:
    folder = Path(__file__).resolve().parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", _MAKE, str(path)],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
