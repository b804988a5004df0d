"""A home with a few runs in it, made by gofer itself."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

from fuzz.records import GROUP, RUN, as_bytes, file_times, run_objects, snapshot_objects

_RUNS = [
    ["--name", "fine", "--tag", "a=1", "echo", "hello"],
    ["--name", "bad", "sh", "-c", "echo 'No module named x'; exit 3"],
    ["--each", "x=1..3", "sh", "-c", "exit {x}"],
]
_PATIENCE_S = 60.0


def make_home(home: Path) -> Path:
    """Runs of every kind of end, in a home whose supervisor has left."""
    project = home.parent / "seed-project"
    project.mkdir(parents=True)
    environ = {**os.environ, "HOME": str(home.parent), "GOFER_HOME": str(home)}
    for words in _RUNS:
        command = [sys.executable, "-m", "gofer", "submit", "--no-code", "--wait", "-Q", *words]
        subprocess.run(command, cwd=project, env=environ, capture_output=True, timeout=300, check=False)
    _add_records(home / "store")
    command = [sys.executable, "-m", "gofer", "ledger", "rebuild"]
    subprocess.run(command, cwd=project, env=environ, capture_output=True, timeout=300, check=True)
    deadline = time.monotonic() + _PATIENCE_S
    while _is_supervised(home):
        assert time.monotonic() < deadline, "the supervisor of the seed home did not leave"
        time.sleep(0.1)
    return home


def _add_records(store: Path) -> None:
    """A run with code and a group of runs that somebody else submitted, by ids that inputs can name."""
    snapshot, objects = snapshot_objects()
    found: dict[str, object] = {**objects, **run_objects(RUN, snapshot), **run_objects(GROUP, rows=True)}
    found[f"runs/{RUN}/file-times"] = file_times(None, snapshot)
    for key, value in found.items():
        path = store / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_bytes(key, value))


def _is_supervised(home: Path) -> bool:
    for path in home.glob("engine/*/supervisor.lock"):
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False
