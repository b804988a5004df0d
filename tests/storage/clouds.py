"""How the tests open the stores of their servers."""

from __future__ import annotations

from services.azurite import Account
from services.moto import Moto

from gofer.config.stores import StoreOptions
from gofer.storage.azure import AzureStore
from gofer.storage.open import open_store
from gofer.storage.s3 import S3Store


def azure_by_key(account: Account, container: str | None = None, prefix: str = "") -> AzureStore:
    """A store opened by the account's key, in a new container unless named."""
    options = StoreOptions(account.name, account.key, endpoint=account.endpoint)
    store = open_store(f"az://{container or account.new_container()}/{prefix}", options)
    assert isinstance(store, AzureStore)
    return store


def azure_by_sas(
    account: Account, sas: str, container: str, prefix: str = "", *, endpoint: str | None = None
) -> AzureStore:
    """A store opened by a SAS alone."""
    options = StoreOptions(account.name, sas=sas, endpoint=endpoint or account.endpoint)
    store = open_store(f"az://{container}/{prefix}", options, name="blob")
    assert isinstance(store, AzureStore)
    return store


def s3(moto: Moto, bucket: str | None = None, prefix: str = "") -> S3Store:
    """A store in a new bucket unless named."""
    options = StoreOptions(endpoint=moto.endpoint, access_key=moto.access_key, secret_key=moto.secret_key)
    store = open_store(f"s3://{bucket or moto.new_bucket()}/{prefix}", options)
    assert isinstance(store, S3Store)
    return store
