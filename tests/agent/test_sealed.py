"""Private values beside the queue: readable by their owner alone, gone when asked."""

from __future__ import annotations

import os
from pathlib import Path

from gofer.agent import sealed

VALUES = {"TOKEN": "not-a-real-token", "ODD": "a\udcff\n'\""}


def test_values_come_back_and_go(tmp_path: Path) -> None:
    engine = str(tmp_path / "engine")
    sealed.write(engine, "r1", VALUES)
    assert sealed.read(engine, "r1") == VALUES
    sealed.remove(engine, "r1")
    assert sealed.read(engine, "r1") == {}
    sealed.remove(engine, "r1")


def test_nobody_else_may_read_them(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        sealed.write(str(tmp_path), "r1", VALUES)
    finally:
        os.umask(old)
    assert (tmp_path / "sealed").stat().st_mode & 0o777 == 0o700
    (file,) = (tmp_path / "sealed").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
