"""Reaching a supervisor through its FIFO, and starting one only where that makes sense."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gofer.queue import wake


def test_without_a_reader_there_is_no_supervisor(tmp_path: Path) -> None:
    assert not wake.poke(str(tmp_path))
    os.mkfifo(wake.fifo(str(tmp_path)))
    assert not wake.poke(str(tmp_path))


def test_a_reader_is_woken_and_never_blocks_the_writer(tmp_path: Path) -> None:
    os.mkfifo(wake.fifo(str(tmp_path)))
    reader = os.open(wake.fifo(str(tmp_path)), os.O_RDWR | os.O_NONBLOCK)
    try:
        for _ in range(70_000):  # more than a pipe holds
            assert wake.poke(str(tmp_path))
        assert os.read(reader, 1)
    finally:
        os.close(reader)


def test_inside_a_run_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end with the run."""
    monkeypatch.setenv("GOFER_RUN_ID", "r1")
    wake.ensure(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
