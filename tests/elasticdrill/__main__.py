"""`python -m elasticdrill [--events 10000] [--seed N] [--minutes M]`; exit 1 on any violation.

A round is one simulated run with some hundred membership events. A violation prints the seed of its round.
"""

from __future__ import annotations

import argparse
import collections
import secrets
import sys
import time

from elasticdrill.chaos import drill
from elasticdrill.simulation import BrokenInvariant

_ROUND = 200


def main() -> int:
    parser = argparse.ArgumentParser(prog="elasticdrill", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000, help="how many membership events in all")
    parser.add_argument("--seed", type=int, help="the seed of the first round")
    parser.add_argument("--minutes", type=float, help="begin no new round after this long")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    began, done, generations = time.monotonic(), collections.Counter[str](), 0
    simulated_s = 0.0
    while done.total() < given.events:
        if given.minutes is not None and time.monotonic() > began + 60 * given.minutes:
            break
        try:
            chaos = drill(seed, min(_ROUND, given.events - done.total()))
        except BrokenInvariant as violation:
            print(f"{violation}; repeat with --seed {seed} --events {_ROUND}", flush=True)
            return 1
        done += chaos.done
        generations += max(chaos.world.committed)
        simulated_s += chaos.world.now
        seed += 1
    for name, count in done.most_common():
        print(f"{count:7,}  {name.replace('_', ' ')}")
    passed = f"{generations:,} generations, {simulated_s / 3600:.1f} simulated hours"
    print(f"{done.total():7,}  membership events, {passed}")
    print("no violation: no two generations ran at once, none was committed twice, every run ended")
    return 0 if done.total() >= given.events else 1


sys.exit(main())
