"""`python -m drill [--kills 1000] [--seed N] [--minutes M] [--scenario NAME]…`; exit 1 on any violation."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from drill.runner import SCENARIOS, DrillRunner


def main() -> int:
    parser = argparse.ArgumentParser(prog="drill", description=__doc__)
    parser.add_argument(
        "--kills", type=int, default=1000, help="how many kills the random-kills makes in all"
    )
    parser.add_argument("--seed", type=int, help="repeat the drill with this seed")
    parser.add_argument("--minutes", type=float, help="begin no new round after this long")
    parser.add_argument(
        "--scenario", action="append", choices=sorted(SCENARIOS), help="only this one; may be repeated"
    )
    parser.add_argument("--keep", type=Path, help="where the evidence of violations goes")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    folder = given.keep or Path(tempfile.mkdtemp(prefix="gofer-drill-"))
    if folder.exists() and any(folder.iterdir()):
        parser.error(f"{folder} is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    runner = DrillRunner(folder, seed=seed, minutes=given.minutes, say=lambda line: print(line, flush=True))
    runner.run(given.scenario or list(SCENARIOS), kills=given.kills)
    print(runner.tally.render())
    if runner.tally.violations:
        print(f"evidence in {folder}; repeat with --seed {seed}")
        return 1
    folder.rmdir()
    return 0


sys.exit(main())
