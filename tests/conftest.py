"""Fixtures for tests that run gofer as its users do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from home import Home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A gofer home of the test's own. The test fails if one of its processes outlives it."""
    one = Home(tmp_path)
    yield one
    one.close()
