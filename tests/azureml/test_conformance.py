"""Azure ML, ITP and Singularity pass the suite that is shipped for every backend, on the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml.backend.azure_home import AzureHome
from services.azure import Azure
from services.azure import azure as azure

from gofer.ops.session import Session
from gofer.testing.backend_conformance import BackendConformance


class OnTheSimulator(BackendConformance):
    timeout_s = 200.0
    home: AzureHome

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, azure: Azure, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self.home = AzureHome(tmp_path, azure)
        self.shared_folder = str(tmp_path)
        for name, value in self.home.environ.items():
            monkeypatch.setenv(name, value)
        yield
        self.home.close()

    def open(self) -> Session:
        return Session(self.home.folder, self.home.environ, emit=lambda _: None)


@pytest.mark.xdist_group("azure-aml")
class TestAml(OnTheSimulator):
    column = "aml"
    target = "gpu"
    gpus_per_node = 4


@pytest.mark.xdist_group("azure-itp")
class TestItp(OnTheSimulator):
    column = "itp"
    smoke = True
    target = "itp"
    gpus_per_node = 4


@pytest.mark.xdist_group("azure-singularity")
class TestSingularity(OnTheSimulator):
    column = "singularity"
    smoke = True
    target = "vc"
    gpus_per_node = 1
