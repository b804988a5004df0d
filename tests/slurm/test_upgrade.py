"""An older version of gofer and this one share a home and the folders of a Slurm cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from slurm.slurm_home import SlurmHome
from upgrade.older_version import Pair, make_pair, take_source
from upgrade.suite import Upgrade

pytestmark = [*ON_SLURM, pytest.mark.slow, pytest.mark.wide]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the older version's package is."""
    return take_source(tmp_path_factory.mktemp("older"))


class TestOnSlurm(Upgrade):
    @pytest.fixture
    def pair(self, tmp_path: Path, slurm: Slurm, source: Path) -> Iterator[Pair]:
        yield make_pair(SlurmHome(tmp_path, slurm), source, umask_002=True)
