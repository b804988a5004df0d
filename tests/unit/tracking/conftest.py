from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gofer.tracking.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "state" / "ledger.db") as opened:
        yield opened
