from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from aks.aks_home import AksHome
from services.azure import Azure, azure_sim


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    with azure_sim(tmp_path_factory.mktemp("azure")) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, azure: Azure) -> Iterator[AksHome]:
    """A person at the simulator. Operations are quick, and no fault of an earlier test is left."""
    azure.admin("DELETE", "/faults")
    one = AksHome(tmp_path, azure)
    yield one
    azure.admin("DELETE", "/faults")
    one.close()
