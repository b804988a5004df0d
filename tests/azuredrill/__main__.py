"""`python -m azuredrill [--faults 1000] [--seed N] [--keep FOLDER]`; exit 1 on any violation."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from azuredrill.site import on_azure


def main() -> int:
    parser = argparse.ArgumentParser(prog="azuredrill", description=__doc__)
    parser.add_argument(
        "--faults",
        type=int,
        default=1000,
        help="how often the service is to fail; delays and blobs come besides",
    )
    parser.add_argument("--submitters", type=int, default=3, help="how many submit side by side")
    parser.add_argument("--seed", type=int, help="repeat the drill with this seed")
    parser.add_argument("--keep", type=Path, help="hold it in this empty folder, and leave what it wrote")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    if given.keep is not None:
        return drill(given.keep, seed, given.faults, given.submitters)
    with tempfile.TemporaryDirectory(prefix="gofer-azure-") as folder:
        return drill(Path(folder), seed, given.faults, given.submitters)


def drill(folder: Path, seed: int, faults: int, submitters: int) -> int:
    with on_azure(folder, seed) as site:
        tally = site.run(faults, submitters=submitters)
        print(f"azure, seed {seed}\n{site.render(tally)}", flush=True)
    return 1 if tally.wrong else 0


sys.exit(main())
