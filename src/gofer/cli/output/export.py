"""Runs as a file for other tools: .csv, .tsv or .json, one line or object a run, exact values."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from gofer.cli.output.columns import value
from gofer.cli.output.json_output import to_text
from gofer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.tracking.ledger import RunRow

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def write_runs(rows: Sequence[RunRow], names: Sequence[str], file: str, *, all_tags: bool) -> None:
    """Write the file whole or not at all; with `all_tags`, a column for every tag and array value there is.

    The ending chooses the form; UsageError for another one.
    """
    ending = os.path.splitext(file)[1].lower()
    if ending != ".json" and ending not in _DELIMITERS:
        raise UsageError(
            f"`{file}` ends in none of .csv, .tsv and .json", hint="for example `--export runs.csv`"
        )
    if all_tags:
        names = [*names, *_keyed(rows)]
    now = time.time()
    lines = [[value(name, row, now) for name in names] for row in rows]
    text = _json(names, lines) if ending == ".json" else _delimited(names, lines, _DELIMITERS[ending])
    _replace(file, text.encode("utf-8", "backslashreplace"))


def _keyed(rows: Sequence[RunRow]) -> list[str]:
    args = {f"arg.{key}": None for row in rows for key in row.args}
    tags = {f"tag.{key}": None for row in rows for key in row.tags}
    return [*args, *sorted(tags)]


def _json(names: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    return to_text([dict(zip(names, line, strict=True)) for line in lines])


def _delimited(names: Sequence[str], lines: Sequence[Sequence[object]], delimiter: str) -> str:
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(lines)
    return buffer.getvalue()


def _replace(file: str, data: bytes) -> None:
    new = f"{file}.{os.getpid()}.new"
    try:
        with open(new, "wb") as stream:
            stream.write(data)
        os.replace(new, file)
    except OSError:
        if os.path.exists(new):
            os.unlink(new)
        raise
