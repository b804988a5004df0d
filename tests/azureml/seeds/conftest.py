from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml.seeds.layout import OlderToolHome, stubs
from services.azure import Azure, azure_sim


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    """A service whose nodes have the programs that the documents' lines run."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("azure")
        patch.setenv("PATH", stubs(tmp_path_factory.mktemp("programs")))
        # One account copies from the other by itself, and so must trust its certificate.
        patch.setenv("NODE_EXTRA_CA_CERTS", str(folder / "ca.pem"))
        with azure_sim(folder) as running:
            yield running


@pytest.fixture
def older_home(tmp_path: Path, azure: Azure) -> Iterator[OlderToolHome]:
    made = OlderToolHome(tmp_path, azure)
    yield made
    made.close()
