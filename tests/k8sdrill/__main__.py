"""`python -m k8sdrill [--faults 10000] [--real 300] [--seed N] [--keep FOLDER]`; exit 1 on any violation."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from clusters.fixtures import running_k8s

from k8sdrill.k8s_drill import k8s_drill


def main() -> int:
    parser = argparse.ArgumentParser(prog="k8sdrill", description=__doc__)
    parser.add_argument("--faults", type=int, default=10_000, help="how many requests fail")
    parser.add_argument("--real", type=int, default=300, help="how many pods, nodes and servers are lost")
    parser.add_argument("--submitters", type=int, default=3, help="number of processes that submit")
    parser.add_argument("--seed", type=int, help="repeat the drill with this seed")
    parser.add_argument("--keep", type=Path, help="run in this empty folder and keep its files")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    if given.keep is not None:
        return drill(given.keep, seed, given)
    with tempfile.TemporaryDirectory(prefix="gofer-k8sdrill-") as folder:
        return drill(Path(folder), seed, given)


def drill(folder: Path, seed: int, given: argparse.Namespace) -> int:
    with running_k8s() as k8s, k8s_drill(folder, k8s, seed) as site:
        tally = site.run(given.faults, given.real, submitters=given.submitters)
        print(f"kubernetes, seed {seed}\n{site.render(tally)}", flush=True)
    return 1 if tally.wrong else 0


sys.exit(main())
