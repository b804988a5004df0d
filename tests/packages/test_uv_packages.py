"""Packages of a uv.lock with the real uv, without a network."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import Home
from packages.wheels import write_wheel

UV = Path(__file__).resolve().parents[2] / ".test-services/programs/bin/uv"
SHOW = (
    "import sys, json, alpha, part, demo; "
    "print(json.dumps([sys.prefix, alpha.VERSION, part.NAME, demo.NAME]))"
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A workspace with a lock, in which a part is a package of its own."""
    one = Home(tmp_path)
    write_wheel(one.folder / "wheels", "alpha", "1.0")
    write_wheel(one.folder / "wheels", "alpha", "2.0")
    (one.folder / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.8"\n'
        'dependencies = ["alpha<2", "part"]\n[tool.uv.sources]\npart = { workspace = true }\n'
        '[tool.uv.workspace]\nmembers = ["part"]\n'
    )
    (one.folder / "part/src/part").mkdir(parents=True)
    (one.folder / "part/pyproject.toml").write_text(
        '[project]\nname = "part"\nversion = "1"\nrequires-python = ">=3.8"\ndependencies = []\n'
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    )
    (one.folder / "part/src/part/__init__.py").write_text("NAME = 'part'\n")
    (one.folder / "demo.py").write_text("NAME = 'demo'\n")
    environ = {**one.environ, "UV_NO_INDEX": "1", "UV_FIND_LINKS": "wheels", "UV_OFFLINE": "1"}
    subprocess.run([UV, "lock", "--quiet"], cwd=one.folder, env=environ, check=True, timeout=120)
    yield one
    one.close()


def run(home: Home, *words: str) -> str:
    done = home.gofer("submit", "--wait", "--json", "--packages", "auto", *words)
    assert "packages: uv.lock (uv)" in done.err
    return str(json.loads(done.out)["id"])


def test_a_lock_is_built_and_every_member_is_imported_from_the_copy(home: Home) -> None:
    home.environ["PATH"] = os.pathsep.join([home.environ["PATH"], str(UV.parent)])
    first = run(home, "python", "-c", SHOW)
    prefix, *names = json.loads(home.log(first))
    assert names == ["1.0", "part", "demo"]
    assert prefix.endswith("/.venv")
    # `uv run` takes the environment as it is, and the second run builds nothing.
    second = run(home, "uv", "run", "python", "-c", SHOW)
    assert json.loads(home.log(second).splitlines()[-1])[1:] == names
    assert not [one for one in home.events(second) if one["event"] == "packages"]


def test_without_uv_on_the_node_pip_installs_it_into_gofers_folder(home: Home) -> None:
    write_wheel(home.folder / "wheels", "uv", "9.0", scripts={"uv": f'#!/bin/sh\nexec {UV} "$@"\n'})
    run_id = run(home, "--wheels", "wheels", "python", "-c", SHOW)
    assert json.loads(home.log(run_id))[1:] == ["1.0", "part", "demo"]
    assert (home.queue_home / "packages/tools/uv/env/bin/uv").exists()
