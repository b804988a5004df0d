"""The agent as one file that Python runs."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from azureml.node.service import Service
from pythons import pythons

from gofer.node.zip_program import unpack
from gofer.transport.bundle import bundle, mark

OLD_ENOUGH = ("3.8", "3.9", "3.10", "3.12", "3.13")


@pytest.mark.parametrize("version", OLD_ENOUGH)
def test_every_python_from_the_oldest_on_runs_it(service: Service, version: str) -> None:
    (python, *_) = pythons(version)
    job = service.job(["sh", "-c", "echo hello $GOFER_ATTEMPT; test $GOFER_ATTEMPT = 2"], retries=1)
    job.python = str(python)
    (done,) = job.run()
    assert (done.status, job.log(2)) == (0, "hello 2\n"), done.err


def test_two_nodes_under_the_oldest_python(service: Service) -> None:
    job = service.job(["sh", "-c", "echo $RANK"], nodes=2)
    job.python = str(pythons(*OLD_ENOUGH)[0])
    done = job.run()
    assert [one.status for one in done] == [0, 0], [one.err for one in done]


def test_a_python_that_is_too_old_says_so(tmp_path: Path) -> None:
    (python, *_) = pythons("3.7", "3.6")
    archive = tmp_path / "agent.zip"
    archive.write_bytes(bundle().data)
    argv = [str(python), "-E", "-s", str(archive), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("gofer: this node has Python 3.")


def test_the_mark_names_all_that_is_in_it() -> None:
    with zipfile.ZipFile(io.BytesIO(bundle().data)) as packed:
        assert packed.read("mark").decode() == mark() == bundle().mark
        names = packed.namelist()
    assert {"__main__.py", "gofer/__init__.py", "gofer/node/azure/program.py"} <= set(names)


def test_many_processes_unpack_it_at_once(tmp_path: Path) -> None:
    archive = tmp_path / "agent.zip"
    archive.write_bytes(bundle().data)
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: unpack(str(archive), str(tmp_path / "engine")), range(16)))
    assert folders == {str(tmp_path / "engine" / "agent" / mark())}
    assert [path.name for path in (tmp_path / "engine" / "agent").iterdir()] == [mark()]


def test_a_folder_of_somebody_elses_is_not_used(tmp_path: Path) -> None:
    """In a folder that all may write to, another user may have made the place beforehand."""
    import os

    archive = tmp_path / "agent.zip"
    archive.write_bytes(bundle().data)
    (tmp_path / f"gofer-{os.getuid()}").symlink_to(tmp_path)
    done = subprocess.run(
        [sys.executable, str(archive), str(tmp_path)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "is a link and not this user's own folder" in done.stderr
