"""Fixtures for tests that run gofer as its users do."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import Home
from hypothesis import HealthCheck, settings

# A shell that starts the suite in the background, or nohup, has it ignore these, and every command of it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A busy machine may rest in the midst of an example.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def kernel_kills() -> Iterator[None]:
    """For tests in which the kernel ends a process for lack of memory, or which must not take an end for it.

    It counts such ends for the whole machine, so of these tests one runs at a time, whatever suite it is of.
    """
    path = os.path.join(tempfile.gettempdir(), f"gofer-test-kernel-kills-{os.getuid()}")
    lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A gofer home of the test's own. The test fails if one of its processes outlives it."""
    one = Home(tmp_path)
    yield one
    one.close()
