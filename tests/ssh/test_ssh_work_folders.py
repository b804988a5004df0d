"""The path of a run's folder is short enough for Unix sockets, on machines over SSH."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_BOXES
from clusters.fixtures import ssh_boxes as ssh_boxes
from clusters.fixtures import ssh_boxes_site as ssh_boxes_site
from clusters.ssh import Boxes
from home import Home, until
from socket_project import bind, short_folder

pytestmark = ON_SSH_BOXES


@pytest.fixture
def home(tmp_path: Path, ssh_boxes: Boxes) -> Home:
    made = Home(tmp_path)
    made.environ["PATH"] = f"{ssh_boxes.bin}:{made.environ['PATH']}"
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
        home.configure(f"targets: {{box: {{kind: ssh, hosts: [boxb], folder: {folder}}}}}\ntarget: box\n")
        copy = bind(home, *options)
        assert copy.is_relative_to(top)
        until(partial(_is_gone, copy.parent), "the copy is removed")


def _is_gone(path: Path) -> bool:
    return not path.exists()
