"""Arithmetic on samples: minimum, median, ratio, and the bars that gofer has promised to clear. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """Minimum and median of one quantity over the rounds of one competitor."""

    minimum: float
    median: float
    count: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Figure:
        """Raises ValueError when there is no sample: a figure is never made up."""
        if not samples:
            raise ValueError("no samples to make a figure of")
        return cls(min(samples), statistics.median(samples), len(samples))


@dataclass(frozen=True)
class Ratio:
    """One figure over another, from the same run: of the minima and of the medians."""

    minimum: float
    median: float

    @classmethod
    def of(cls, figure: Figure, base: Figure) -> Ratio:
        """`figure` in units of `base`; raises ValueError when `base` is zero."""
        if base.minimum <= 0 or base.median <= 0:
            raise ValueError(f"no ratio to a figure of {base.minimum}")
        return cls(figure.minimum / base.minimum, figure.median / base.median)

    def __str__(self) -> str:
        return f"{number(self.minimum)}x (medians {number(self.median)}x)"


@dataclass(frozen=True)
class Bar:
    """A promise and what was measured. `met` is None when a side of the comparison was not measured."""

    promise: str
    value: str
    met: bool | None


def at_most(promise: str, limit: float, figure: Figure | None, base: Figure | None) -> Bar:
    """The bar `figure ≤ limit x base`, judged on the minima."""
    if figure is None or base is None:
        return Bar(promise, "a side was not measured", None)
    ratio = Ratio.of(figure, base)
    return Bar(promise, str(ratio), ratio.minimum <= limit)


def count_at_most(promise: str, limit: float, value: float | None, unit: str) -> Bar:
    """The bar `value ≤ limit` for a plain count, such as of processes or bytes."""
    if value is None:
        return Bar(promise, "not measured", None)
    return Bar(promise, f"{value:,.0f} {unit}", value <= limit)


def number(value: float) -> str:
    """Three significant digits without an exponent, with thousands separated."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"
