"""What the tests of use cases share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.ops.project import OpsProject


@pytest.fixture
def project(tmp_path: Path) -> Iterator[OpsProject]:
    made = OpsProject(tmp_path)
    with made.session:
        yield made
