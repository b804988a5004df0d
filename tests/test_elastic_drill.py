"""A bounded part of the drill of elastic runs, with a new seed each time.

The whole is `make drill-elastic`.
"""

from __future__ import annotations

import os

import pytest
from elasticdrill.chaos import Chaos, drill
from elasticdrill.simulation import BrokenInvariant
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.mark.drill
@pytest.mark.slow
def test_random_membership_events_never_run_two_generations_at_once() -> None:
    first = int.from_bytes(os.urandom(3), "big")
    chaos = [drill(seed, 100) for seed in range(first, first + 5)]
    assert sum(one.done.total() for one in chaos) == 500


@pytest.mark.drill
@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_nothing_that_must_not_happen_happens_under_random_faults(seed: int, events: int) -> None:
    chaos = drill(seed, events)
    assert chaos.done.total() == events


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["takeover_s", "stranger_s"])
def test_the_simulation_sees_a_rule_that_is_broken(rule: str) -> None:
    def is_seen(seed: int) -> bool:
        chaos = Chaos(seed)
        chaos.world.timing = chaos.world.timing._replace(**{rule: 0.0})
        try:
            chaos.run(60)
        except BrokenInvariant:
            return True
        return False

    assert any(is_seen(seed) for seed in range(30))
