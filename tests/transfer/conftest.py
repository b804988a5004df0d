"""Stores of every kind, and transfers in one word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from services.azurite import Account
from services.fixtures import azurite as azurite
from services.fixtures import moto as moto
from services.moto import Moto

from gofer.config.stores import StoreOptions
from gofer.storage.base import Store
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore
from gofer.storage.open import open_store

KINDS = ("memory", "file", "azure", "s3")


def azure_store(account: Account, *, container: str | None = None, port: int | None = None) -> Store:
    """A container of its own, or the one named; reached through a proxy when its port is given."""
    endpoint = account.endpoint if port is None else f"http://127.0.0.1:{port}/{account.name}"
    url = f"az://{container or account.new_container()}/some/folder"
    return open_store(url, StoreOptions(account.name, account.key, endpoint=endpoint))


def s3_store(server: Moto, *, bucket: str | None = None, port: int | None = None) -> Store:
    endpoint = server.endpoint if port is None else f"http://127.0.0.1:{port}"
    options = StoreOptions(endpoint=endpoint, access_key=server.access_key, secret_key=server.secret_key)
    return open_store(f"s3://{bucket or server.new_bucket()}/some/folder", options)


@pytest.fixture
def open_kind(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Store]:
    """A new, empty store of a kind; its server starts with the first use."""

    def open_one(kind: str) -> Store:
        if kind == "memory":
            return MemoryStore()
        if kind == "file":
            return FileStore(tmp_path_factory.mktemp("store"), create=True)
        if kind == "azure":
            return azure_store(request.getfixturevalue("azurite").one)
        return s3_store(request.getfixturevalue("moto"))

    return open_one


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, open_kind: Callable[[str], Store]) -> Store:
    return open_kind(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "folder"
