from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml.node.service import Service
from services.azurite import Azurite
from services.fixtures import azurite as azurite


@pytest.fixture
def service(tmp_path: Path, azurite: Azurite) -> Iterator[Service]:
    """An Azure ML of the test's own; nothing of its jobs outlives the test."""
    one = Service(tmp_path, azurite.one)
    yield one
    one.close()
