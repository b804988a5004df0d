"""The servers as fixtures, one of each for a module: `from services.fixtures import azurite as azurite`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services import azurite as _azurite
from services import moto as _moto


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_azurite.Azurite]:
    with _azurite.azurite(tmp_path_factory.mktemp("azurite")) as running:
        yield running


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_moto.Moto]:
    with _moto.moto(tmp_path_factory.mktemp("moto")) as running:
        yield running
