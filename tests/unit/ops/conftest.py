"""What the tests of use cases share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.ops.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    with made.session:
        yield made
