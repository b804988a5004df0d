"""What the tests of the data commands share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from data.project import Project
from services.fixtures import azurite as azurite


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project whose folder `data` lies in a store that is a folder."""
    made = Project(tmp_path)
    made.configure(
        f"stores: {{s: {{url: '{made.store.as_uri()}'}}}}\n"
        "folders: {data: {store: s, path: me/data}, output: {store: s, path: me/output}}\n"
    )
    yield made
    made.close()
