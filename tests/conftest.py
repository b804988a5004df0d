"""Fixtures for tests that run gofer as its users do."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import Home
from hypothesis import HealthCheck, settings

from gofer.testing.backend_conformance import SMOKE

# A shell that starts the suite in the background, or nohup, has it ignore these, and every command of it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A busy machine may rest in the midst of an example.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a conformance class with `smoke = True`, mark the cases beside the smoke as `wide`."""
    for item in items:
        is_smoke = getattr(getattr(item, "cls", None), "smoke", False)
        if is_smoke and getattr(item, "originalname", None) not in SMOKE:
            item.add_marker("wide")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A gofer home of the test's own. The test fails if one of its processes outlives it."""
    one = Home(tmp_path)
    yield one
    one.close()
