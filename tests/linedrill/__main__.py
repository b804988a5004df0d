"""`python -m linedrill [--faults 500] [--on ssh|slurm] [--seed N]`; exit 1 on any violation."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from linedrill.sites import SITES


def main() -> int:
    parser = argparse.ArgumentParser(prog="linedrill", description=__doc__)
    parser.add_argument("--faults", type=int, default=500, help="how many faults the lines have in all")
    parser.add_argument("--on", action="append", choices=sorted(SITES), help="only there; may be repeated")
    parser.add_argument("--seed", type=int, help="repeat the drill with this seed")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    wrong = 0
    for name in given.on or sorted(SITES):
        with (
            tempfile.TemporaryDirectory(prefix="gofer-lines-") as folder,
            SITES[name](Path(folder), seed) as line_drill,
        ):
            tally = line_drill.run(given.faults)
        print(f"{name}, seed {seed}\n{tally.render()}", flush=True)
        wrong += len(tally.wrong)
    return 1 if wrong else 0


sys.exit(main())
