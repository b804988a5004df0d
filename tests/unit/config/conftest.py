"""The desk every test of the settings works at."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.config.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
