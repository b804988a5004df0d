"""The stores of the clouds pass the same suite as a folder does, over servers that are not ours."""

from __future__ import annotations

import pytest
from services.azurite import Azurite
from services.moto import Moto

from gofer.config.stores import StoreOptions
from gofer.storage.base import Store
from gofer.storage.open import open_store
from gofer.testing.storage_conformance import StoreConformance


class TestAzureByKey(StoreConformance):
    azurite: Azurite

    @pytest.fixture(autouse=True)
    def _server(self, azurite: Azurite) -> None:
        self.azurite = azurite

    def open(self) -> Store:
        one = self.azurite.one
        container = one.new_container()
        return open_store(f"az://{container}", StoreOptions(one.name, one.key, endpoint=one.endpoint))


class TestAzureBySas(TestAzureByKey):
    def open(self) -> Store:
        one = self.azurite.one
        container = one.new_container()
        sas = "?" + one.container_sas(container)
        url = f"az://{container}/a folder/with%20odd+name"
        return open_store(url, StoreOptions(one.name, sas=sas, endpoint=one.endpoint))


class TestS3(StoreConformance):
    moto: Moto

    @pytest.fixture(autouse=True)
    def _server(self, moto: Moto) -> None:
        self.moto = moto

    def open(self) -> Store:
        moto = self.moto
        options = StoreOptions(
            endpoint=moto.endpoint, access_key=moto.access_key, secret_key=moto.secret_key
        )
        return open_store(f"s3://{moto.new_bucket()}/some/folder", options)
