"""Renders results as Markdown. Pure: takes figures, gives text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.figures import Bar, Figure, number


@dataclass(frozen=True)
class Table:
    """Every row has as many cells as there are columns; the first is the label."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""


@dataclass(frozen=True)
class Section:
    """One benchmark: what was measured and how, the tables, the bars, and who could not be measured and
    why.
    """

    letter: str
    title: str
    method: str
    tables: tuple[Table, ...]
    bars: tuple[Bar, ...]
    failures: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def document(
    facts: Sequence[tuple[str, str]], versions: Mapping[str, str], sections: Sequence[Section], command: str
) -> str:
    """The whole results file, ending in a newline. Every section says when and on what it was taken, since
    parts of other runs may come to stand beside it.
    """
    taken = f"Taken by `{command}`:\n\n" + "\n".join(f"- {label}: {value}" for label, value in facts)
    taken += f"\n- versions: {', '.join(f'{name} {version}' for name, version in versions.items())}"
    parts = [
        "# Benchmark results",
        "docs/benchmarks.md says how to read and repeat them.",
        "## Bars",
        bars_table(sections),
        *(section_text(section, taken) for section in sections),
    ]
    return "\n\n".join(parts) + "\n"


def bars_table(sections: Sequence[Section]) -> str:
    """One line a promise, the missed ones in bold."""
    rows = [(s.letter, bar.promise, bar.value, verdict(bar)) for s in sections for bar in s.bars]
    return table_text(Table(("", "promise", "measured", "verdict"), tuple(rows)), numbers=False)


def verdict(bar: Bar) -> str:
    if bar.met is None:
        return "not judged"
    return "met" if bar.met else "**MISSED**"


def section_text(section: Section, taken: str) -> str:
    """Heading, method, what it was taken on, tables, then what is missing and why."""
    lines = [f"## ({section.letter}) {section.title}", section.method, taken]
    for table in section.tables:
        lines.extend([f"### {table.title}"] if table.title else [])
        lines.append(table_text(table))
    lines.extend(f"Note: {note}" for note in section.notes)
    lines.extend(f"Not measured: {name}: {_escaped(why)}" for name, why in section.failures.items())
    return "\n\n".join(lines)


def table_text(table: Table, *, numbers: bool = True) -> str:
    """A Markdown table; with `numbers` every column but the first is aligned right."""
    for row in table.rows:
        if len(row) != len(table.columns):
            raise ValueError(f"row {row!r} has {len(row)} cells, the table {len(table.columns)} columns")
    rule = [":---", *("---:" if numbers else ":---" for _ in table.columns[1:])]
    lines = [_line(table.columns), _line(rule), *(_line(tuple(map(_escaped, row))) for row in table.rows)]
    return "\n".join(lines)


def pair(figure: Figure, scale: float = 1.0) -> tuple[str, str]:
    """The cells `minimum` and `median`, scaled to the unit of the column."""
    return number(figure.minimum * scale), number(figure.median * scale)


def memory(figure: Figure, floor_mib: float) -> str:
    """Peak memory in MiB; a figure that the measuring process itself may have caused is given as a limit."""
    limit = "≤ " if figure.minimum <= floor_mib + 0.5 else ""
    return limit + number(figure.minimum)


def missed(sections: Sequence[Section]) -> int:
    return sum(bar.met is False for section in sections for bar in section.bars)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
