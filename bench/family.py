"""Measures a command together with everything it leaves running in the background, see drivers/reap.py."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import measure
from bench.places import DRIVERS


@dataclass(frozen=True)
class Family:
    """A command and all its descendants: `linger_s` is how long the last of them outlived the command."""

    wall_s: float
    cpu_s: float
    rss_mib: float
    linger_s: float
    left: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class Limits:
    """How long the command may take, how long what it leaves may stay, and how many cores all may use (0:
    any).
    """

    timeout_s: int
    linger_s: int = 60
    cores: int = 0


def run(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, limits: Limits) -> Family:
    """Blocks until `argv` and its descendants ended; what outstays `limits.linger_s` is killed and named in
    `left`.

    Raises BenchError when the command itself fails.
    """
    report = cwd / f"family-{time.monotonic_ns()}.json"
    reaper = [sys.executable, str(DRIVERS / "reap.py"), str(report)]
    reaper += [str(number) for number in (limits.timeout_s, limits.linger_s, limits.cores)]
    sample = measure.run(
        [*reaper, *argv], env=env, cwd=cwd, timeout_s=limits.timeout_s + limits.linger_s + 30
    )
    found = json.loads(report.read_text(encoding="utf-8"))
    report.unlink()
    return Family(**{**found, "left": tuple(found["left"]), "output": sample.output})
