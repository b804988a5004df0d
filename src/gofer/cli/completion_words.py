"""The words that completion offers: names of the settings, runs, filters, columns.

Only a completion loads this module. Each function takes the beginning of a word, and offers nothing when the
settings or the ledger cannot be read. No function creates a file or asks a cluster.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from click.shell_completion import CompletionItem

from gofer.cli.output.columns import COLUMNS
from gofer.config.dockers import docker_names
from gofer.config.folders import folders_of
from gofer.config.paths import Paths
from gofer.config.secrets import Secrets
from gofer.core.states import Reason, State
from gofer.errors import GoferError
from gofer.ops.accounts.azure_profiles import Profiles
from gofer.ops.session import Session
from gofer.text import printable
from gofer.tracking.ledger import Ledger, RunRow
from gofer.tracking.query import FIELDS, NONE, Query

T = TypeVar("T")

_MOST_RUNS = 50
# Names and tags are those of so many of the newest runs.
_MOST_READ = 500
_FILTER = re.compile(r"([^=!<>~]+)(==|!=|<>|<=|>=|=|<|>|~)(.*)")
_LAUNCHERS = ("spawn", "mpi", "torchrun")


def target_names(start: str) -> list[CompletionItem]:
    """The targets, and the groups of targets."""
    return _items(
        _settings(lambda session: [*session.settings.target_names, *session.settings.target_groups]), start
    )


def run_references(start: str) -> list[CompletionItem]:
    """The newest runs whose short id, full id or name begins with `start`, and `last`."""
    offered = {"last": "the newest run of this project"} if "last".startswith(start) else {}
    for row in _rows(None if start else _MOST_RUNS):
        words = (row.short_id, row.id, row.name) if start else (row.short_id,)
        word = next((word for word in words if word.startswith(start)), None)
        if word and word not in offered and len(offered) < _MOST_RUNS:
            offered[word] = printable(f"{row.state} {' '.join(row.command)[:60]}")
    return [CompletionItem(word, help=help) for word, help in offered.items()]


def _filters(start: str) -> list[CompletionItem]:
    """Fields with `=`; after a field and an operator, its values. Several values are separated by commas."""
    match = _FILTER.fullmatch(start)
    if not match:
        return _items([f"{field}=" for field in [*FIELDS, *_keyed_fields()]], start)
    field, _, values = match.groups()
    typed = values.rpartition(",")[2]
    return _items([start[: len(start) - len(typed)] + value for value in _values_of(field)], start)


def _values_of(field: str) -> list[str]:
    """The values of a field that are words: those that exist, or those of the newest runs."""
    if field in ("state", "reason"):
        return [str(word) for word in (State if field == "state" else Reason)]
    if field == "target":
        return _settings(lambda session: session.settings.target_names)
    rows = _rows(_MOST_READ)
    if field in ("id", "group"):
        return [row.short_id for row in rows if field == "id" or row.kind == "group"]
    if field == "name":
        return _each(row.name for row in rows)
    if field.startswith("tag."):
        return [*_each(row.tags.get(field[4:]) for row in rows), NONE]
    return []


def _columns(start: str) -> list[CompletionItem]:
    """The columns of tables, separated by commas."""
    return _parts([*COLUMNS, *_keyed_fields()], start)


def _sort_fields(start: str) -> list[CompletionItem]:
    return _items([*FIELDS, *_keyed_fields()], start)


def _tags(start: str) -> list[CompletionItem]:
    """Tags that runs have, with their values."""
    rows = _rows(_MOST_READ)
    return _items(
        _each(f"{key}={value}" if value else key for row in rows for key, value in row.tags.items()), start
    )


def _tag_keys(start: str) -> list[CompletionItem]:
    return _items(_each(key for row in _rows(_MOST_READ) for key in row.tags), start)


def _paths(start: str) -> list[CompletionItem]:
    """Mapped folders and stores; files of this machine for a path in a folder, and where no name matches."""
    names = [
        *(f"{name}/" for name in _settings(_mapped)),
        *(f"{name}:" for name in _settings(lambda session: session.settings.store_names)),
    ]
    return _items(names, start) or _files(start)


def _files(start: str) -> list[CompletionItem]:
    """The shell completes the files of this machine by itself."""
    return [CompletionItem(start, type="file")]


def _mapped(session: Session) -> Iterable[str]:
    return folders_of(session.settings, session.settings.default_target)


def _keyed_fields() -> list[str]:
    """`tag.NAME` for the tags of the newest runs, `arg.NAME` for their values of arrays."""
    rows = _rows(_MOST_READ)
    tags = _each(f"tag.{key}" for row in rows for key in row.tags)
    return [*tags, *_each(f"arg.{key}" for row in rows for key in row.args)]


def _parts(names: list[str], start: str) -> list[CompletionItem]:
    """The names for the last part of a list with commas."""
    before = start[: len(start) - len(start.rpartition(",")[2])]
    return _items([before + name for name in names if name not in before.split(",")], start)


def _rows(most: int | None) -> list[RunRow]:
    def read() -> list[RunRow]:
        file = Paths.from_environment(os.environ).ledger_file
        if not file.exists():
            return []
        with Ledger.open(file) as ledger:
            return ledger.select(Query(limit=most))

    return _read(read)


def _settings(read: Callable[[Session], Iterable[str]]) -> list[str]:
    with Session() as session:
        return _read(lambda: list(read(session)))


def _read(read: Callable[[], list[T]]) -> list[T]:
    with suppress(GoferError, OSError):
        return read()
    return []


def _each(words: Iterable[str | None]) -> list[str]:
    """The words in order, each once, without empty ones."""
    return [word for word in dict.fromkeys(words) if word]


def _items(words: Iterable[str], start: str) -> list[CompletionItem]:
    return [CompletionItem(printable(word)) for word in words if word.startswith(start)]


# What `gofer.cli.options.offers` names.
OFFERS: dict[str, Callable[[str], list[CompletionItem]]] = {
    "columns": _columns,
    "doctor topics": lambda start: _items(["azure", "kubernetes", "ssh"], start) + target_names(start),
    "files": _files,
    "filters": _filters,
    "images": lambda start: _items(_settings(lambda session: docker_names(session.settings)), start),
    "launchers": lambda start: _items(_LAUNCHERS, start),
    "paths": _paths,
    "profiles": lambda start: _items(_read(lambda: Profiles.of(os.environ).names()), start),
    "reasons": lambda start: _parts([str(reason) for reason in Reason], start),
    "runs": run_references,
    "secrets": lambda start: _items(
        _read(lambda: Secrets(Paths.from_environment(os.environ).secrets_file).names()), start
    ),
    "sort fields": _sort_fields,
    "stores": lambda start: _items(_settings(lambda session: session.settings.store_names), start),
    "tag keys": _tag_keys,
    "tags": _tags,
    "targets": target_names,
}
