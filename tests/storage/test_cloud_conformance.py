"""The stores of the clouds pass the same suite as a folder does, over servers that are not ours."""

from __future__ import annotations

import hashlib

import pytest
from services.azurite import Azurite
from services.moto import Moto
from storage.clouds import azure_by_key, azure_by_sas, s3

from gofer.errors import StoreError
from gofer.storage.base import Store
from gofer.testing.storage_capabilities import (
    BlocksConformance,
    ComparesAndSwapsConformance,
    CopiesFromConformance,
    HashesConformance,
    ListsBeginningsConformance,
    ReadsIntoConformance,
    StreamsConformance,
)
from gofer.testing.storage_conformance import StoreConformance, raises

FOLDER = "a folder/with%20odd+name."


class Everything(
    StoreConformance,
    StreamsConformance,
    HashesConformance,
    BlocksConformance,
    ReadsIntoConformance,
    CopiesFromConformance,
    ListsBeginningsConformance,
    ComparesAndSwapsConformance,
):
    """All that a store over REST can do."""


class TestAzureByKey(Everything):
    azurite: Azurite

    @pytest.fixture(autouse=True)
    def _server(self, azurite: Azurite) -> None:
        self.azurite = azurite

    def open(self) -> Store:
        return azure_by_key(self.azurite.one)

    def open_other(self) -> Store:
        """In another account."""
        return azure_by_key(self.azurite.two, prefix=FOLDER)


class TestAzureBySas(TestAzureByKey):
    def open(self) -> Store:
        one = self.azurite.one
        container = one.new_container()
        return azure_by_sas(one, "?" + one.container_sas(container), container, FOLDER)

    def open_other(self) -> Store:
        two = self.azurite.two
        return azure_by_sas(two, two.account_sas(), two.new_container())


class TestS3(Everything):
    moto: Moto

    @pytest.fixture(autouse=True)
    def _server(self, moto: Moto) -> None:
        self.moto = moto

    def open(self) -> Store:
        return s3(self.moto, prefix=FOLDER)

    def open_other(self) -> Store:
        return s3(self.moto)

    def test_other_bytes_than_the_md5_says_are_refused(self) -> None:
        """moto does not compare Content-MD5 as S3 does; its answer gives it away, too late for the object."""
        store = s3(self.moto)
        with raises(StoreError):
            store.put_hashed("k", b"new", md5=hashlib.md5(b"another").digest())
