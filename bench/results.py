"""Puts the parts that were measured now into the results of those that were not. Text in, text out."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SECTION = re.compile(r"^## \((\w)\) ", re.MULTILINE)
_ROW = re.compile(r"^\| (\w) \|.*$", re.MULTILINE)


@dataclass(frozen=True)
class Parts:
    """A results file: all before the first bar, the bars by their part, and the sections by theirs."""

    head: str
    bars: dict[str, list[str]]
    sections: dict[str, str]

    @classmethod
    def of(cls, text: str) -> Parts:
        """As `bench.report.document` writes it; what is none has no bars and no sections."""
        marks = list(_SECTION.finditer(text))
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        sections = {mark[1]: text[mark.start() : end].strip() for mark, end in zip(marks, ends, strict=False)}
        top = text[: marks[0].start()] if marks else text
        bars: dict[str, list[str]] = {}
        for row in _ROW.finditer(top):
            bars.setdefault(row[1], []).append(row[0])
        first = _ROW.search(top)
        return cls(top[: first.start()] if first else top.rstrip() + "\n", bars, sections)


def merged(old: str, new: str) -> str:
    """The results of `new`, and of `old` those of parts that `new` does not have."""
    before, now = Parts.of(old), Parts.of(new)
    sections = {**before.sections, **now.sections}
    bars = {**{part: rows for part, rows in before.bars.items() if part not in now.sections}, **now.bars}
    rows = "\n".join(row for part in sorted(bars) for row in bars[part])
    return "\n\n".join([now.head + rows, *(sections[part] for part in sorted(sections))]) + "\n"
