"""A short drill of submissions over lines that fail; `make drill-lines` holds the whole one."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from linedrill.sites import SITES

pytestmark = ON_SSH_HOSTS


@pytest.mark.parametrize("site", sorted(SITES))
def test_nothing_is_lost_and_nothing_runs_twice(site: str, tmp_path: Path) -> None:
    with SITES[site](tmp_path, 7) as line_drill:
        tally = line_drill.run(12, submitters=2)
    assert tally.wrong == [], tally.render()
    assert tally.recorded > 0
