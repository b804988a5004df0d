from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml.backend.azure_home import AzureHome
from services.azure import Azure
from services.azure import azure as azure


@pytest.fixture
def home(tmp_path: Path, azure: Azure) -> Iterator[AzureHome]:
    """A person at the simulator, who leaves nothing behind."""
    azure.admin("DELETE", "/faults")
    one = AzureHome(tmp_path, azure)
    yield one
    azure.admin("DELETE", "/faults")
    one.close()
