"""A bounded part of the submission drill."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from slurm.submission_drill import Drill

pytestmark = [*ON_SLURM, pytest.mark.slow, pytest.mark.drill, pytest.mark.timeout(900)]


def test_no_submission_is_lost_or_doubled(slurm: Slurm, tmp_path: Path) -> None:
    tally = Drill(slurm, tmp_path, seed=7).run(30, at_once=4, longest_s=300)
    assert tally.faults.total() >= 12
    assert (tally.lost, tally.doubled) == ([], [])
