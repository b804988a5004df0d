"""Where the benchmark keeps things, and the environment its children see."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
DRIVERS = REPOSITORY / "bench" / "drivers"

# Each would change what a child costs or where it writes; what a competitor needs is set for it explicitly.
_DROPPED = (
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONUNBUFFERED",
    "VIRTUAL_ENV",
    "TMPDIR",
)
_DROPPED_PREFIXES = (
    "GOFER_",
    "XDG_",
    "TS_",
    "SUBMITIT_",
    "TORCHX_",
    "SKYPILOT_",
    "DSTACK_",
    "RCLONE_",
    "GIT_",
)


@dataclass(frozen=True)
class Places:
    """`peers` outlives a run, `scratch` is this run's own."""

    peers: Path
    scratch: Path

    @classmethod
    def open(cls, environ: Mapping[str, str]) -> Places:
        """Makes the folders. `GOFER_BENCH_DIR` moves them out of the repository."""
        root = Path(environ.get("GOFER_BENCH_DIR") or REPOSITORY / ".bench").resolve()
        for part in ("peers", "scratch"):
            (root / part).mkdir(parents=True, exist_ok=True)
        return cls(root / "peers", Path(tempfile.mkdtemp(prefix="run-", dir=root / "scratch")))

    def fresh(self, name: str) -> Path:
        """A new empty folder, its path free of spaces and quotes."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch))

    def remove(self) -> None:
        """Removes this run's scratch; the peers stay installed."""
        shutil.rmtree(self.scratch, ignore_errors=True)

    def environment(self, **extra: str) -> dict[str, str]:
        """The caller's environment without what skews a measurement, its home in the scratch folder."""
        kept = {
            key: value
            for key, value in os.environ.items()
            if key not in _DROPPED and not key.startswith(_DROPPED_PREFIXES)
        }
        home = self.scratch / "home"
        home.mkdir(exist_ok=True)
        return {**kept, "HOME": str(home), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1", **extra}

    def gofer_environment(self, home: Path) -> dict[str, str]:
        """As `environment`, with all of gofer's state under `home`; PYTHONPATH is kept for a source tree."""
        extra = {"GOFER_HOME": str(home)}
        if "PYTHONPATH" in os.environ:
            extra["PYTHONPATH"] = os.environ["PYTHONPATH"]
        return self.environment(**extra)


def module_environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` in which `python -m bench.…` works from any folder."""
    path = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**env, "PYTHONPATH": os.pathsep.join(path)}


def gofer_argv() -> list[str]:
    """The installed `gofer` beside this interpreter, or the module where there is none."""
    script = Path(sys.executable).parent / "gofer"
    return [str(script)] if script.exists() else [sys.executable, "-m", "gofer"]
