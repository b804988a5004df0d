"""`python -m fuzz --inputs 10000`: every area, counted; the exit status is 1 when an answer was odd.

`python -m fuzz --seed S --area A --input N` runs one input alone and prints its answer.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from fuzz.areas import AREAS
from fuzz.harness import Workplace, preload
from fuzz.seed import make_home
from fuzz.work import case_of, fuzz

# Memory rather than a disk, where there is such a folder.
_MEMORY = "/dev/shm"


def main() -> int:
    given = _parser().parse_args()
    print(f"seed {given.seed}", flush=True)
    folder = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="gofer-fuzz-", dir=folder) as name:
        home = make_home(Path(name) / "home")
        if not given.unloaded:
            preload()
        if given.input is not None:
            return _show(given, home, Path(name) / "case")
        deadline = time.monotonic() + 60 * given.minutes
        odd = sum(fuzz(area, given, home, Path(name), deadline) for area in given.area or AREAS)
    print(f"{odd} odd answers")
    return 1 if odd else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="for each area")
    parser.add_argument("--area", action="append", choices=sorted(AREAS))
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--input", type=int, help="only this one, with its answer; with one --area")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="inputs at a time")
    parser.add_argument("--minutes", type=float, default=600.0, help="for all areas together")
    parser.add_argument("--unloaded", action="store_true", help="let each input import gofer by itself")
    return parser


def _show(given: argparse.Namespace, home: Path, folder: Path) -> int:
    for area in given.area or ():
        case = case_of(given.seed, area, given.input)
        answer = Workplace(home, folder).run(case)
        print(f"{case!r}\n{answer.text}")
        print(
            f"exit status {answer.status}, {answer.cpu_s:.3f} s of CPU, {answer.mib} MiB: {answer.problem()}"
        )
        if answer.problem() is not None:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
