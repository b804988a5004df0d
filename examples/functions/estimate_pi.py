"""Estimate pi with functions as jobs: many runs throw darts, and this program adds up their results.

Each call of `throw` is a row of an array, on the default target or on the one that `--target` names.
"""

from __future__ import annotations

import argparse
import random

import gofer


def throw(seed: int, darts: int) -> int:
    """The number of darts that hit the quarter of a circle."""
    rng = random.Random(seed)
    hits = sum(rng.random() ** 2 + rng.random() ** 2 < 1 for _ in range(darts))
    print(f"seed {seed}: {hits} of {darts}")
    return hits


def main() -> None:
    parser = argparse.ArgumentParser(description="estimate pi in several runs")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--darts", type=int, default=200_000, help="darts of each run")
    parser.add_argument("--target")
    given = parser.parse_args()
    template = gofer.job(name="darts", target=given.target)
    group = template.map(throw, range(given.runs), [given.darts] * given.runs)
    print(f"{group.id}: {given.runs} runs")
    hits = sum(group.results())
    print(f"pi is about {4 * hits / (given.runs * given.darts):.4f}")


if __name__ == "__main__":
    main()
