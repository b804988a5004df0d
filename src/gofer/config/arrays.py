"""An array: one job with many rows, from values on the command line, a table in a file (CSV, TSV or JSON
lines), or both.

Every value is text, exactly as written. Limits and names are checked before the combinations are built.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from gofer.config.yaml.decode import check_text
from gofer.core.command import output_word, rows
from gofer.core.launch import argument_environment
from gofer.errors import UnknownName, UsageError
from gofer.model.bounds import MOST_ROWS
from gofer.model.job import Array
from gofer.text import did_you_mean

MOST_BYTES = 256 << 20

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(\d+))?")
_MOST_DIGITS = 18
# `0.1`, `5` and `1e-3`. An exponent has at most two digits, so that no value is longer than some 100.
_DECIMAL = r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?"
# As slices of Python write it.
_OTHER_STEP = re.compile(rf"(-?{_DECIMAL})\.\.(-?{_DECIMAL}):({_DECIMAL})")
_DECIMAL_RANGE = re.compile(rf"(-?{_DECIMAL})\.\.(-?{_DECIMAL})(?:\.\.({_DECIMAL}))?")
_COLUMN = re.compile(rows.NAME)


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
                f"{where}: a line must be a JSON object", hint='for example `{"lr": 0.1, "seed": 1}`'
            )
        yield where, entry


class _Number(str):
    """The digits of a number as they were written: `0.10` stays `0.10`."""


def _as_text(value: object, where: str, column: str) -> str:
    if value is None:
        raise UsageError(f"{where}: `{column}` has no value", hint='write "" for an empty text')
    return str(value) if isinstance(value, str) else _compact(value)


def _compact(value: object) -> str:
    """A Boolean, a list or a map as JSON, with numbers as they were written."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(_compact(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_compact(item)}" for name, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


class Axes(NamedTuple):
    """The columns of an array that were written in place, and the table that was read from a file."""

    columns: Mapping[str, tuple[str, ...]]
    grid: Grid | None


NOTHING = Axes({}, None)


def expand(each: Sequence[str], array_file: Path | None = None, *, base: Axes = NOTHING) -> Array | None:
    """The rows of `each` (`lr=0.1,0.01`; several make every combination) and of a CSV, TSV or JSONL file.

    With both, each row of the file meets each combination. `base` is what a job file says; a column or a file
    given here replaces it. None when nothing was given; UsageError for an odd or doubled column, no row, or
    more than 100,000 rows.
    """
    given = [parse_each(text) for text in each]
    check_columns([name for name, _ in given])
    columns = {**base.columns, **dict(given)}
    grid = read_grid(array_file) if array_file is not None else base.grid
    if not columns and grid is None:
        return None
    first = grid or Grid((), ((),))
    names = (*first.columns, *columns)
    check_columns(names)
    _check_size(len(first.rows) * math.prod(len(values) for values in columns.values()))
    for value in itertools.chain(*first.rows, *columns.values()):
        check_text(value, "a value of the array")
    combinations = list(itertools.product(*columns.values()))
    return Array(names, tuple(row + values for row in first.rows for values in combinations))


def _check_size(rows: int) -> None:
    if not 1 <= rows <= MOST_ROWS:
        what = f"{rows:,} rows" if rows else "no row"
        raise UsageError(f"the array has {what}", hint=f"an array has 1 to {MOST_ROWS:,} rows")


def parse_each(text: str) -> tuple[str, tuple[str, ...]]:
    """The column and the values of `lr=0.1,0.01`, `seed=1..10` or `note='a, b',c`."""
    name, equals, listed = text.partition("=")
    if not equals:
        raise UsageError(
            f"`--each {text}` has no values", hint="write it like `--each lr=0.1,0.01` or `--each seed=1..10`"
        )
    return name.strip(), split_values(listed, name.strip())


def split_values(text: str, column: str) -> tuple[str, ...]:
    """The values between commas; quotes keep a comma, a range such as `1..10` becomes its numbers."""
    values: list[str] = []
    for value, quoted in _items(text, column):
        if quoted:
            values.append(value)
        elif match := _RANGE.fullmatch(value):
            values.extend(_range(match, column))
        elif match := _OTHER_STEP.fullmatch(value):
            raise _step_after_colon(match, column)
        elif match := _DECIMAL_RANGE.fullmatch(value):
            values.extend(_decimal_range(match, column))
        else:
            values.append(value)
    return tuple(values)


def _items(text: str, column: str) -> Iterable[tuple[str, bool]]:
    """Each value, and whether it was quoted; blanks around an unquoted value are dropped."""
    position = 0
    while True:
        position += len(text[position:]) - len(text[position:].lstrip())
        quote = text[position : position + 1]
        if quote and quote in "'\"":
            end = text.find(quote, position + 1)
            rest = text[end + 1 :].lstrip() if end > 0 else "x"
            if rest and rest[0] != ",":
                raise UsageError(f"the quotes in `{column}={text}` do not close round a whole value")
            yield text[position + 1 : end], True
            position = len(text) - len(rest)
        else:
            end = text.find(",", position)
            end = len(text) if end < 0 else end
            value = text[position:end].strip()
            if not value:
                raise UsageError(f"an empty value in `{column}={text}`", hint="write '' for an empty text")
            yield value, False
            position = end
        if position >= len(text):
            return
        position += 1


def _range(match: re.Match[str], column: str) -> list[str]:
    is_long = any(len(part or "") > _MOST_DIGITS for part in match.groups())
    first, last, step = (0, 0, 0) if is_long else (int(match[1]), int(match[2]), int(match[3] or 1))
    if step == 0 or abs(last - first) // step >= MOST_ROWS:
        raise _too_long(match, column)
    padded = any(part.lstrip("-").startswith("0") and len(part.lstrip("-")) > 1 for part in match.group(1, 2))
    width = max(len(match[1]), len(match[2])) if padded else 0
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    return [f"{number:0{width}d}" for number in numbers]


def _step_after_colon(match: re.Match[str], column: str) -> UsageError:
    quoted = f"--each \"{column}='{match[0]}'\""
    return UsageError(
        f"the range `{match[0]}` of `{column}` has its step after a `:`",
        hint=f"write `{match[1]}..{match[2]}..{match[3]}`, or quote the text: `{quoted}`",
    )


def _decimal_range(match: re.Match[str], column: str) -> list[str]:
    """The values of `0.1..0.5..0.1`, exact, each with as many places as the first value and the step need."""
    if match[3] is None:
        raise UsageError(
            f"the range `{match[0]}` of `{column}` has no step",
            hint=f"write `{match[0]}..0.1`, or quote the text: `--each \"{column}='{match[0]}'\"`",
        )
    first, last, step = (Fraction(text) for text in match.groups())
    if step == 0 or abs(last - first) // step >= MOST_ROWS or len(match[0]) > 3 * _MOST_DIGITS:
        raise _too_long(match, column)
    places = max(_places(match[1]), _places(match[3]))
    step = step if first <= last else -step
    count = (last - first) // step + 1
    return [_as_decimal(first + number * step, places) for number in range(count)]


def _places(text: str) -> int:
    """The digits behind the point that a decimal number needs, whether or not it has an exponent."""
    digits, _, exponent = text.lower().partition("e")
    return max(0, len(digits.partition(".")[2]) - int(exponent or 0))


def _as_decimal(value: Fraction, places: int) -> str:
    digits = f"{abs(value) * 10**places // 1:0{places + 1}d}"
    sign = "-" if value < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def _too_long(match: re.Match[str], column: str) -> UsageError:
    return UsageError(
        f"the range `{match[0]}` of `{column}` has too many values", hint=f"at most {MOST_ROWS:,}"
    )


def check_columns(columns: Sequence[str]) -> None:
    """UsageError for a name that cannot stand in braces, or two names that are one GOFER_ARG_ variable."""
    seen: dict[str, str] = {}
    for name in columns:
        if not _COLUMN.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be a column of an array",
                hint="begin with a letter or `_`, then letters, digits, `_`, `.` and `-`",
            )
        variable = next(iter(argument_environment({name: ""})))
        if variable in seen:
            both = f"`{seen[variable]}` and `{name}` are both `{variable}`"
            raise UsageError(f"the column `{name}` is there twice" if seen[variable] == name else both)
        seen[variable] = name


def check_placeholders(command: Sequence[str], columns: Sequence[str]) -> None:
    """UnknownName when the command has a `{name}` that is no column; a column used nowhere is fine.

    `{output}` is the folder of outputs, by the rule of gofer.core.command.output_word.
    """
    free = [word for word in command if not output_word.is_output_word(word)]
    inner = [name for name in rows.placeholders(command) if name != output_word.NAME]
    for name in [*inner, *rows.placeholders(free)]:
        if name not in columns:
            known = ", ".join(f"`{column}`" for column in columns)
            near = did_you_mean(name, columns)
            literal = f"write `{{{{{name}}}}}` for the text `{{{name}}}`"
            raise UnknownName(
                f"`{{{name}}}` in the command is not a column of the array, which has {known}",
                hint=f"{near} Else {literal}" if near else literal,
            )


def substitute(command: Sequence[str], columns: Sequence[str], row: Sequence[str]) -> tuple[str, ...]:
    """The command of one row; `{output}` stays, since only the node knows the folder."""
    return tuple(output_word.show(command, dict(zip(columns, row, strict=True))))


def grid_of(tables: Sequence[Mapping[str, str]]) -> Grid:
    """A list of maps, as a job file may hold it; UsageError unless all have the same keys."""
    columns = tuple(tables[0]) if tables else ()
    for number, entry in enumerate(tables, start=1):
        if set(entry) != set(columns):
            odd = sorted(set(entry) ^ set(columns))[0]
            raise UsageError(f"row {number} of the array and the first row differ in the key `{odd}`")
    return Grid(columns, tuple(tuple(entry[column] for column in columns) for entry in tables))
