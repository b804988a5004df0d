"""What the drill counted, and its summary."""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple


class Violation(NamedTuple):
    """A broken promise, and where."""

    scenario: str
    seed: int
    words: str


class Tally:
    """Counts over the whole drill. One thread."""

    def __init__(self) -> None:
        self.kills: Counter[str] = Counter()
        self.moments: Counter[tuple[str, str]] = Counter()
        self.rounds: Counter[str] = Counter()
        self.states: Counter[str] = Counter()
        self.facts: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self._began = time.monotonic()

    @property
    def killed(self) -> int:
        return self.kills.total()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def kill(self, kind: str, moment: str) -> None:
        self.kills[kind] += 1
        self.moments[kind, moment] += 1

    def render(self) -> str:
        """The summary, a few dozen lines."""
        lines = [f"{self.killed} kills in {sum(self.rounds.values())} rounds, {self.elapsed_s:.0f} s"]
        for kind, count in self.kills.most_common():
            lines.append(f"  {kind:<12} {count:>6}")
            moments = [(moment, n) for (of, moment), n in self.moments.most_common() if of == kind]
            lines += [f"    {moment:<42} {n:>6}" for moment, n in moments]
        lines.append("rounds   " + _named(self.rounds))
        lines.append("runs     " + _named(self.states))
        lines.append("facts    " + _named(self.facts))
        broken = self.violations
        lines.append(
            f"never ran {_count(broken, 'NEVER')} · doubled {_count(broken, 'DOUBLED')}"
            f" · leaks {_count(broken, 'LEFT')} · violations in all {len(broken)}"
        )
        lines += [f"  {one.scenario} (seed {one.seed}): {one.words[:300]}" for one in broken[:20]]
        return "\n".join(lines)


def _named(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _count(violations: list[Violation], word: str) -> int:
    return sum(word in one.words for one in violations)
