"""Competitors take turns: A B C, A B C, … so that a noisy minute falls on all of them alike."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from bench.errors import BenchError
from bench.figures import Figure

T = TypeVar("T")


@dataclass(frozen=True)
class Competitor(Generic[T]):
    """`attempt` takes one sample and raises BenchError when it cannot; `most_rounds` caps a slow one."""

    name: str
    attempt: Callable[[], T]
    most_rounds: int | None = None


@dataclass
class Outcome(Generic[T]):
    """The samples of every competitor in their order, and why those without samples have none."""

    samples: dict[str, list[T]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def figure(self, name: str, pick: Callable[[T], float]) -> Figure | None:
        """None when `name` was not measured."""
        taken = self.samples.get(name)
        return Figure.of([pick(sample) for sample in taken]) if taken else None

    def figures(self, pick: Callable[[T], float]) -> Mapping[str, Figure]:
        """One figure for each competitor that was measured."""
        return {name: Figure.of([pick(s) for s in taken]) for name, taken in self.samples.items() if taken}


def interleave(competitors: Sequence[Competitor[T]], rounds: int, *, warm_ups: int = 0) -> Outcome[T]:
    """Blocks until all rounds are taken. A competitor that fails is dropped with its reason; the others go
    on.

    The first `warm_ups` rounds are run and thrown away: they fill the page cache and the bytecode caches.
    """
    outcome: Outcome[T] = Outcome()
    for turn in range(-warm_ups, rounds):
        for competitor in competitors:
            _take_turn(competitor, turn, outcome)
    return outcome


def _take_turn(competitor: Competitor[T], turn: int, outcome: Outcome[T]) -> None:
    if competitor.name in outcome.failures:
        return
    if competitor.most_rounds is not None and turn >= competitor.most_rounds:
        return
    print(f"  round {turn + 1}: {competitor.name}", file=sys.stderr, flush=True)
    try:
        sample = competitor.attempt()
    except BenchError as error:
        outcome.failures[competitor.name] = str(error)
        outcome.samples.pop(competitor.name, None)
        print(f"  {competitor.name} is left out: {error}", file=sys.stderr, flush=True)
        return
    if turn >= 0:
        outcome.samples.setdefault(competitor.name, []).append(sample)
