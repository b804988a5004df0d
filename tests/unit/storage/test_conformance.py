"""Every store of gofer passes the suite that is shipped for those of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from gofer.storage.base import Store
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore
from gofer.testing.storage_capabilities import (
    BlocksConformance,
    ComparesAndSwapsConformance,
    HashesConformance,
    StreamsConformance,
)
from gofer.testing.storage_conformance import AppendsConformance


class TestMemoryStore(
    AppendsConformance,
    StreamsConformance,
    HashesConformance,
    BlocksConformance,
    ComparesAndSwapsConformance,
):
    def open(self) -> Store:
        return MemoryStore()


class TestFileStore(AppendsConformance, StreamsConformance, ComparesAndSwapsConformance):
    root: Path

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.root = tmp_path / "a store's #1 folder?"

    def open(self) -> Store:
        return FileStore(self.root, create=True)
