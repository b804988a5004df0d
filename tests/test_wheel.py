"""The wheel of `make wheel` has all that gofer needs and no tests, and runs without this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Runs the wheel without the editable gofer of this checkout, which a .pth file of site-packages adds.
RUN = """
import runpy, sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
sys.argv[:] = ["gofer", *sys.argv[3:]]
import gofer
assert gofer.__file__.startswith(sys.path[0]), gofer.__file__
runpy.run_module("gofer", run_name="__main__")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    builder = Path(sys.executable).with_name("hatchling")
    subprocess.run([builder, "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("gofer-*-py3-none-any.whl")
    return built


def test_the_wheel_holds_gofer_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gofer"}
    assert not [name for name in names if name.endswith((".pyc", ".map")) or "/tests/" in name]
    assert "gofer/py.typed" in names


def test_a_run_works_with_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    dependencies = next(path for path in sys.path if path.endswith("site-packages"))
    project = tmp_path / "a project"
    project.mkdir()
    (project / "hello.py").write_text("print('hello from a wheel')\n")
    env = {**os.environ, "HOME": str(tmp_path), "GOFER_HOME": str(tmp_path / "home")}
    argv = [sys.executable, "-S", "-c", RUN, str(installed), dependencies, "submit", "-f", sys.executable]
    done = subprocess.run(
        [*argv, "hello.py"], check=False, cwd=project, env=env, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "hello from a wheel\n"), done.stderr
