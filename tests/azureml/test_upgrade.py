"""An older version of gofer and this one share a home and a workspace of a simulated Azure ML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml.backend.azure_home import AzureHome
from services.azure import Azure
from services.azure import azure as azure
from upgrade.older_version import Pair, make_pair, take_source
from upgrade.suite import Upgrade

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.wide, pytest.mark.xdist_group("azure-upgrade")]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the older version's package is."""
    return take_source(tmp_path_factory.mktemp("older"))


class TestOnAzure(Upgrade):
    @pytest.fixture
    def pair(self, tmp_path: Path, azure: Azure, source: Path) -> Iterator[Pair]:
        home = AzureHome(tmp_path, azure)
        yield make_pair(home, source)
        home.close()
