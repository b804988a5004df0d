from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml.backend.desk import Desk
from services.azure import Azure
from services.azure import azure as azure


@pytest.fixture
def desk(tmp_path: Path, azure: Azure) -> Iterator[Desk]:
    """A person at the simulator, who leaves nothing behind."""
    azure.admin("DELETE", "/faults")
    one = Desk(tmp_path, azure)
    yield one
    azure.admin("DELETE", "/faults")
    one.close()
