"""Packages on machines over SSH, which see nothing of the submitting environment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home
from packages.wheels import write_wheel
from pythons import pythons

pytestmark = ON_SSH_HOSTS


@pytest.fixture
def home(tmp_path: Path, ssh_hosts: SshHosts) -> Iterator[Home]:
    made = Home(tmp_path)
    made.environ["PATH"] = f"{ssh_hosts.bin}:{made.environ['PATH']}"
    made.configure(
        "targets: {box: {kind: ssh, hosts: [hostb], gpus_per_node: 0}}\ntarget: box\njob: {wheels: wheels}\n"
    )
    yield made


def test_the_packages_of_the_code_are_installed_by_default(home: Home, ssh_hosts: SshHosts) -> None:
    write_wheel(home.folder / "wheels", "alpha")
    (home.folder / "requirements.txt").write_text("alpha\n")
    show = "import alpha, os, sys; print(alpha.VERSION, sys.prefix == os.path.abspath('.venv'))"
    done = home.gofer("submit", "--wait", "python", "-c", show)
    assert "packages: requirements.txt (pip)" in done.err
    assert home.log(done.out.strip()) == "1.0 True\n"
    home.gofer("extract", done.out.strip(), "one")
    assert "pip install" in (home.folder / "one/logs/1/node-0/setup.log").read_text()
    again = home.gofer("submit", "--wait", "python", "-c", show).out.strip()
    home.gofer("extract", again, "two")
    assert not (home.folder / "two/logs/1/node-0/setup.log").exists()
    plain = home.gofer("submit", "--wait", "--json", "--packages", "none", "python3", "-c", show, status=1)
    words = "`alpha` is not installed on the node: `--packages auto` installs what requirements.txt lists"
    assert words in json.loads(plain.out)["why"]
    (used,) = (ssh_hosts.machines["hostb"].home / ".gofer").glob("engine/*/packages/*/used")
    os.utime(used, (1000, 1000))
    home.gofer("prune", "-t", "box", "--yes")
    assert not used.parent.exists()


def test_the_oldest_python_runs_the_agent_that_builds(home: Home) -> None:
    """The agent's own Python is 3.8, which has no TOML parser, and it is the first in the run's PATH."""
    found = pythons("3.8")
    home.configure(
        f"targets: {{box: {{kind: ssh, hosts: [hostb], gpus_per_node: 0, python: {found[0]}}}}}\n"
        f"target: box\njob: {{wheels: wheels, env: {{PATH: '{found[0].parent}:/usr/bin:/bin'}}}}\n"
    )
    write_wheel(home.folder / "wheels", "alpha")
    (home.folder / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "3.1"\ndependencies = [\n  "alpha",  # one\n]\n'
    )
    (home.folder / "demo.py").write_text(
        "import importlib.metadata\nVERSION = importlib.metadata.version('demo')\n"
    )
    show = "import alpha, demo, sys; print(alpha.VERSION, demo.VERSION, sys.version_info[:2])"
    done = home.gofer("submit", "--wait", "python", "-c", show)
    assert "packages: pyproject.toml (pip)" in done.err
    assert home.log(done.out.strip()) == "1.0 3.1 (3, 8)\n"
