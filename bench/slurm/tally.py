"""Counts calls of Slurm's programs: each is on PATH as a few lines that write down its name and start it."""

from __future__ import annotations

import os
import shlex
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

PROGRAMS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo", "sacctmgr")
# One write of one short line: callers at the same time do not mix theirs. EPOCHREALTIME is bash's own.
_WRAPPER = '#!/bin/bash\nprintf "%s {name}\\n" "$EPOCHREALTIME" >>{log}\nexec {real} "$@"\n'


@dataclass(frozen=True)
class Call:
    """`at` is in seconds since 1970."""

    at: float
    program: str


@dataclass(frozen=True)
class Tally:
    """The wrappers and their list, in `folder`."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Tally:
        """BenchError when one of the programs is not installed."""
        tally = cls(folder)
        (folder / "bin").mkdir()
        for name in PROGRAMS:
            real = shutil.which(name)
            if real is None:
                raise BenchError(f"there is no `{name}`: `bash scripts/apt-packages.sh` installs it")
            text = _WRAPPER.format(name=name, log=shlex.quote(str(tally.log)), real=shlex.quote(real))
            (folder / "bin" / name).write_text(text, encoding="utf-8")
            (folder / "bin" / name).chmod(0o755)
        return tally

    @property
    def log(self) -> Path:
        return self.folder / "calls"

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """`env` in which calls are counted."""
        return {**env, "PATH": os.pathsep.join([str(self.folder / "bin"), env.get("PATH", os.defpath)])}

    def calls(self) -> list[Call]:
        """All since `clear`, in order."""
        text = self.log.read_text(encoding="ascii") if self.log.exists() else ""
        words = (line.split() for line in text.splitlines())
        return [Call(float(at.replace(",", ".")), program) for at, program in words]

    def clear(self) -> None:
        self.log.unlink(missing_ok=True)


def summary(calls: Sequence[Call]) -> str:
    """`3: sbatch, 2 squeue`."""
    counted = Counter(call.program for call in calls)
    names = [name if count == 1 else f"{count:,} {name}" for name, count in sorted(counted.items())]
    return f"{len(calls):,}: {', '.join(names)}" if calls else "0"
