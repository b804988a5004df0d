"""The project every test of the settings works at."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.config.project import ConfigProject


@pytest.fixture
def project(tmp_path: Path) -> ConfigProject:
    return ConfigProject(tmp_path)
