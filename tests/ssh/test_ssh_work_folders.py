"""The path of a run's folder is short enough for Unix sockets, on machines over SSH."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home, until
from socket_project import bind, short_folder

pytestmark = ON_SSH_HOSTS


@pytest.fixture
def home(tmp_path: Path, ssh_hosts: SshHosts) -> Home:
    made = Home(tmp_path)
    made.environ["PATH"] = f"{ssh_hosts.bin}:{made.environ['PATH']}"
    return made


@pytest.fixture
def short() -> Iterator[Path]:
    with short_folder() as path:
        yield path


@pytest.mark.parametrize("options", [(), ("--each", "x=1")])
def test_a_socket_is_bound(home: Home, short: Path, options: tuple[str, ...]) -> None:
    """In gofer's folder there and, where the path of that is long, in a folder of the user's own."""
    own = Path("/var/tmp") / f"gofer-{os.getuid()}" / "w"
    for folder, top in ((short / "f", short / "f" / "w"), (short / ("x" * 150), own)):
        home.configure(f"targets: {{box: {{kind: ssh, hosts: [hostb], folder: {folder}}}}}\ntarget: box\n")
        copy = bind(home, *options)
        assert copy.is_relative_to(top)
        until(partial(_is_gone, copy.parent), "the copy is removed")


def _is_gone(path: Path) -> bool:
    return not path.exists()
