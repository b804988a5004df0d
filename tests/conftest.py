"""Fixtures for tests that run gofer as its users do."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import Home

# A shell that starts the suite in the background, or nohup, has it ignore these, and every command of it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A gofer home of the test's own. The test fails if one of its processes outlives it."""
    one = Home(tmp_path)
    yield one
    one.close()
