"""Runs as a file for other tools: .csv, .tsv or .json, one line or object a run, exact values."""

from __future__ import annotations

import csv
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from gofer.cli.output.columns import value
from gofer.cli.output.json_output import array_text
from gofer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from gofer.tracking.ledger import RunRow

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def write_runs(rows: Collection[RunRow], names: Sequence[str], file: str, *, all_tags: bool) -> None:
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
    lines = ([value(name, row, now) for name in names] for row in rows)
    with _new_file(file) as stream:
        if ending == ".json":
            stream.writelines(array_text(dict(zip(names, line, strict=True)) for line in lines))
        else:
            writer = csv.writer(stream, delimiter=_DELIMITERS[ending], lineterminator="\n")
            writer.writerow(names)
            writer.writerows(lines)


def _keyed(rows: Collection[RunRow]) -> list[str]:
    args: dict[str, None] = {}
    tags: dict[str, None] = {}
    for row in rows:
        args.update((f"arg.{key}", None) for key in row.args)
        tags.update((f"tag.{key}", None) for key in row.tags)
    return [*args, *sorted(tags)]


@contextmanager
def _new_file(file: str) -> Iterator[TextIO]:
    """A file to write, which replaces `file` once the block has ended without an error."""
    new = f"{file}.{os.getpid()}.new"
    try:
        with open(new, "w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            yield stream
        os.replace(new, file)
    except BaseException:
        if os.path.exists(new):
            os.unlink(new)
        raise
