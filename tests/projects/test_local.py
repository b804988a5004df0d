"""The same output and the same files afterwards, plainly and through gofer, on the local target."""

from __future__ import annotations

import pytest
from home import Home
from projects.catalogue import PROJECTS
from projects.compare import both


@pytest.mark.parametrize("name", PROJECTS)
def test_the_same_command_does_the_same_thing(name: str, home: Home) -> None:
    plain, gofer = both(PROJECTS[name], home, home.root / "plain")
    assert gofer.lines == plain.lines
    assert gofer.files == plain.files
    assert gofer.status == plain.status
