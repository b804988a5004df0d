"""The bounded part of the fault drill.

The whole is `make drill`; docs/fault-drill.md says what it does. A seed that fails here is printed with its
violations, and `python -m drill --seed N` repeats it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drill.runner import NEEDS_ROOT, SCENARIOS, DrillRunner


def drilled(folder: Path, *names: str, kills: int = 0) -> DrillRunner:
    runner = DrillRunner(folder, seed=int.from_bytes(os.urandom(2), "big"), brief=True)
    runner.run(names, kills=kills)
    assert not runner.tally.violations, runner.tally.render()
    return runner


@pytest.mark.drill
@pytest.mark.slow
def test_kills_at_random_points_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    runner = drilled(tmp_path, "random-kills", kills=20)
    assert runner.tally.killed >= 20
    assert runner.tally.states.total() > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.drill
@pytest.mark.slow
def test_a_crowd_and_dying_supervisors_lose_nothing(tmp_path: Path) -> None:
    assert drilled(tmp_path, "submitters", "unattended").tally.states.total() > 20


@pytest.mark.drill
@pytest.mark.slow
def test_torn_files_lost_queues_and_clocks_lose_nothing(tmp_path: Path) -> None:
    names = ("torn", "clock", "queue-lost", "queue-corrupt")
    assert drilled(tmp_path, *names).tally.states.total() > 20


@pytest.mark.drill
@pytest.mark.slow
@pytest.mark.root
def test_a_full_disk_and_a_restart_lose_nothing(tmp_path: Path) -> None:
    assert drilled(tmp_path, *NEEDS_ROOT).tally.rounds == {"disk-full": 1, "reboot": 1}


def test_every_scenario_is_part_of_the_suite_and_of_the_documentation() -> None:
    here = Path(__file__)
    output = (here.parents[1] / "docs" / "fault-drill.md").read_text()
    assert all(f"`{name}`" in output for name in SCENARIOS)
    assert all(name in NEEDS_ROOT or f'"{name}"' in here.read_text() for name in SCENARIOS)
