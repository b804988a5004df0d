"""Files that take minutes to make and serve every checkout of this user."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """The user's folder for the files. It need not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "gofer-test", "kubernetes")


def make_once(path: Path, make: Callable[[Path], None]) -> Path:
    """`path`, which `make` writes at the place it is given when `path` is absent.

    One process makes it, and others wait. A process that is killed leaves no `path`: the next begins again.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            part = path.with_name(f".{path.name}.part")
            _remove(part)
            make(part)
            os.replace(part, path)
    return path


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
