"""Fixtures of `FolderHome`: `from local.folder_fixtures import home as home`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from local.folder_home import FolderHome, azure_entry, s3_entry
from services.azurite import Azurite
from services.fixtures import azurite as azurite
from services.fixtures import moto as moto
from services.moto import Moto


def make(kind: str, root: Path, azurite: Azurite, moto: Moto) -> FolderHome:
    if kind == "azure":
        return FolderHome(root, azure_entry(azurite.one), azurite.one.key)
    if kind == "s3":
        return FolderHome(root, s3_entry(moto), moto.secret_key)
    (root / "blobs").mkdir(parents=True)
    return FolderHome(root, {"url": (root / "blobs").as_uri()})


@pytest.fixture(params=["file", "azure", "s3"])
def home(
    request: pytest.FixtureRequest, tmp_path: Path, azurite: Azurite, moto: Moto
) -> Iterator[FolderHome]:
    """A home for each kind of store. The test fails if a process outlives it."""
    made = make(request.param, tmp_path, azurite, moto)
    yield made
    made.close()


@pytest.fixture
def azure_home(tmp_path: Path, azurite: Azurite, moto: Moto) -> Iterator[FolderHome]:
    made = make("azure", tmp_path, azurite, moto)
    yield made
    made.close()


@pytest.fixture
def file_home(tmp_path: Path) -> Iterator[FolderHome]:
    (tmp_path / "blobs").mkdir()
    made = FolderHome(tmp_path, {"url": (tmp_path / "blobs").as_uri()})
    yield made
    made.close()
