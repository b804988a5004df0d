"""Desks with mapped folders as fixtures: `from local.folder_fixtures import desk as desk`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from local.folder_desk import FolderDesk, azure_entry, s3_entry
from services.azurite import Azurite
from services.fixtures import azurite as azurite
from services.fixtures import moto as moto
from services.moto import Moto


def make(kind: str, root: Path, azurite: Azurite, moto: Moto) -> FolderDesk:
    if kind == "azure":
        return FolderDesk(root, azure_entry(azurite.one), azurite.one.key)
    if kind == "s3":
        return FolderDesk(root, s3_entry(moto), moto.secret_key)
    (root / "blobs").mkdir(parents=True)
    return FolderDesk(root, {"url": (root / "blobs").as_uri()})


@pytest.fixture(params=["file", "azure", "s3"])
def desk(
    request: pytest.FixtureRequest, tmp_path: Path, azurite: Azurite, moto: Moto
) -> Iterator[FolderDesk]:
    """A desk for each kind of store. The test fails if a process outlives it."""
    made = make(request.param, tmp_path, azurite, moto)
    yield made
    made.close()


@pytest.fixture
def azure_desk(tmp_path: Path, azurite: Azurite, moto: Moto) -> Iterator[FolderDesk]:
    made = make("azure", tmp_path, azurite, moto)
    yield made
    made.close()


@pytest.fixture
def file_desk(tmp_path: Path) -> Iterator[FolderDesk]:
    (tmp_path / "blobs").mkdir()
    made = FolderDesk(tmp_path, {"url": (tmp_path / "blobs").as_uri()})
    yield made
    made.close()
