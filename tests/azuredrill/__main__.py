"""`python -m azuredrill [--faults 1000] [--seed N] [--keep FOLDER]`; exit 1 on any violation."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from azuredrill.azure_drill import azure_drill


def main() -> int:
    parser = argparse.ArgumentParser(prog="azuredrill", description=__doc__)
    parser.add_argument(
        "--faults",
        type=int,
        default=1000,
        help="how many failures of the service; delays and failures of blobs are extra",
    )
    parser.add_argument("--submitters", type=int, default=3, help="number of processes that submit")
    parser.add_argument("--seed", type=int, help="repeat the drill with this seed")
    parser.add_argument("--keep", type=Path, help="run in this empty folder and keep its files")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    if given.keep is not None:
        return drill(given.keep, seed, given.faults, given.submitters)
    with tempfile.TemporaryDirectory(prefix="gofer-azure-") as folder:
        return drill(Path(folder), seed, given.faults, given.submitters)


def drill(folder: Path, seed: int, faults: int, submitters: int) -> int:
    with azure_drill(folder, seed) as site:
        tally = site.run(faults, submitters=submitters)
        print(f"azure, seed {seed}\n{site.render(tally)}", flush=True)
    return 1 if tally.wrong else 0


sys.exit(main())
