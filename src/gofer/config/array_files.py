"""The table of an array in a file: CSV, TSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gofer.errors import UsageError

MOST_BYTES = 256 << 20


class Grid(NamedTuple):
    """Columns, and rows of as many values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read_grid(path: Path) -> Grid:
    """The table in the file, by the ending of its name; UsageError with file and line when it is not a
    table.
    """
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        return _separated(path, "," if ending == ".csv" else "\t")
    if ending in (".jsonl", ".ndjson"):
        return _json_lines(path)
    raise UsageError(f"`{path}` is not a table gofer reads", hint="give a `.csv`, `.tsv` or `.jsonl` file")


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read the array `{path}`: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise UsageError(f"the array `{path}` is larger than {MOST_BYTES >> 20} MiB")
    if b"\0" in data:
        raise UsageError(f"the array `{path}` is not a text file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: the array is not UTF-8 text") from None


def _separated(path: Path, delimiter: str) -> Grid:
    reader = csv.reader(io.StringIO(_text(path), newline=""), delimiter=delimiter, strict=True)
    columns: tuple[str, ...] = ()
    rows = []
    try:
        for record in reader:
            if not record:
                continue
            if not columns:
                columns = tuple(name.strip() for name in record)
            elif len(record) != len(columns):
                raise UsageError(f"{path}:{reader.line_num}: {len(record)} values for {len(columns)} columns")
            else:
                rows.append(tuple(record))
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: {error}") from None
    if not columns:
        raise UsageError(f"the array `{path}` is empty", hint="its first line names the columns")
    return Grid(columns, tuple(rows))


def _json_lines(path: Path) -> Grid:
    columns: tuple[str, ...] = ()
    rows = []
    for where, entry in _objects(path):
        if not entry:
            raise UsageError(f"{where}: a line must name at least one column")
        columns = columns or tuple(entry)
        if set(entry) != set(columns):
            odd = sorted(set(entry) ^ set(columns))[0]
            raise UsageError(f"{where}: this line and the first differ in the key `{odd}`")
        rows.append(tuple(_as_text(entry[column], where, column) for column in columns))
    return Grid(columns, tuple(rows))


def _objects(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    # Lines end with a newline alone: str.splitlines would also break at characters that JSON allows in text.
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            entry = json.loads(line, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
        except (ValueError, RecursionError):
            raise UsageError(f"{where}: not a line of JSON") from None
        if not isinstance(entry, dict):
            raise UsageError(
                f"{where}: a line must be a JSON object", hint='such as `{"lr": 0.1, "seed": 1}`'
            )
        yield where, entry


class _Number(str):
    """The digits of a number as they were written: `0.10` stays `0.10`."""


def _as_text(value: object, where: str, column: str) -> str:
    if value is None:
        raise UsageError(f"{where}: `{column}` has no value", hint='write "" for an empty text')
    return str(value) if isinstance(value, str) else _compact(value)


def _compact(value: object) -> str:
    """A truth, a list or a map in JSON again, numbers as they were."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(_compact(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_compact(item)}" for name, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
