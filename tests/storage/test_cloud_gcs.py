"""`gs://` over a small server of our own: how gofer uses obstore, not how Google answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from services.gcs import SERVICE_ACCOUNT, gcs

from gofer.config.stores import StoreOptions
from gofer.errors import ConfigError, CredentialError
from gofer.storage.base import Store
from gofer.storage.open import open_store
from gofer.testing.storage_capabilities import StreamsConformance
from gofer.testing.storage_conformance import StoreConformance


class TestGcs(StoreConformance, StreamsConformance):
    address: str

    @pytest.fixture(autouse=True)
    def _server(self) -> Iterator[None]:
        with gcs() as self.address:
            yield

    def open(self) -> Store:
        key = SERVICE_ACCOUNT % self.address
        return open_store("gs://bucket/some/folder", StoreOptions(key=key, endpoint=self.address))


def test_what_is_no_service_account_is_refused() -> None:
    with pytest.raises(ConfigError, match="not the JSON of a service account") as caught:
        open_store("gs://bucket", StoreOptions(key="dummy-no-json"))
    assert "dummy-no-json" not in str(caught.value)
    with pytest.raises(CredentialError, match=r"the store .* cannot be opened") as opened:
        open_store("gs://bucket", StoreOptions(key='{"private_key": "dummy-half"}'))
    assert "dummy-half" not in str(opened.value)


def test_the_repr_shows_the_address_alone() -> None:
    store = open_store("gs://bucket/x", StoreOptions(key=SERVICE_ACCOUNT % "http://127.0.0.1:1"))
    assert repr(store) == "GcsStore('gs://bucket/x')"
