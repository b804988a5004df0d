"""The older version of gofer, taken out of git, and a home that both versions use."""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest
from home import Home

# The last version before the modules were renamed. What this version wrote must be readable for ever.
OLDER = "73c022ae348595cb1199ce8609dd66157651bd2b"
_ROOT = Path(__file__).resolve().parents[2]
_AT_UMASK_002 = ("sh", "-c", 'umask 002; exec "$@"', "sh")


class Pair(NamedTuple):
    """One home, project and store, used by the older version, by this one, and by this one from another home.

    `second` has a ledger and a queue of its own, and knows the runs of the others from the store alone.
    """

    older: Home
    newer: Home
    second: Home


def take_source(folder: Path) -> Path:
    """Put the source of the older version below `folder`; return what PYTHONPATH has to name."""
    command = ["git", "archive", "--format=tar", OLDER, "src"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        pytest.fail(
            f"commit {OLDER} is not in this clone, so no older version can be tested: "
            f"{done.stderr.decode().strip()}\nhint: a shallow clone gets it by `git fetch --unshallow`"
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def make_pair(newer: Home, source: Path, *, umask_002: bool = False) -> Pair:
    """The home `newer` for both versions; with `umask_002`, every command runs at umask 002."""
    if umask_002:
        newer.prefix = _AT_UMASK_002
    older, second = copy.copy(newer), copy.copy(newer)
    older.environ = {**newer.environ, "PYTHONPATH": str(source)}
    second.path = newer.root / "second"
    second.environ = {**newer.environ, "GOFER_HOME": str(second.path)}
    pair = Pair(older, newer, second)
    assert source_of(older) == source
    assert source_of(newer) == source_of(second) == _ROOT / "src"
    return pair


def source_of(home: Home) -> Path:
    """The folder that the package of this home's commands comes from."""
    program = "import gofer; print(gofer.__file__)"
    command = [*home.prefix, sys.executable, "-c", program]
    found = subprocess.run(
        command, cwd=home.folder, env=home.environ, check=True, timeout=60, capture_output=True
    )
    return Path(os.fsdecode(found.stdout.strip())).parents[1]


def is_supervised_by(home: Home, source: Path) -> bool:
    """Whether the supervisor that runs in this home was started from that source."""
    pid = home.supervisor()
    return pid is not None and os.fsencode(source) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
