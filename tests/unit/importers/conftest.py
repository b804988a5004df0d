from __future__ import annotations

from pathlib import Path

import pytest
from unit.importers.printed import ACCOUNT, CLUSTER, WORKSPACE
from unit.importers.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def act(shop: Shop) -> Shop:
    """The files that ACT's document prints, where it says they are."""
    shop.put("aux_data/aml/aml.yaml", CLUSTER)
    shop.put("aux_data/aml/config.json", WORKSPACE)
    shop.put("aux_data/configs/vigeastblob_account.yaml", ACCOUNT)
    return shop
