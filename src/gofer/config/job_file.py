"""`--job FILE.yaml`: the keys of `job`, and what to run, in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from gofer.config.array_files import read_grid
from gofer.config.arrays import Axes, check_columns, grid_of, split_values
from gofer.config.decode import Decoder, struct_type
from gofer.config.document import read_document
from gofer.config.nodes import Node, Table
from gofer.config.sections import JobFileSection, JobSection
from gofer.errors import ConfigError, UsageError

_OPERATORS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>&1", "2>"})


class JobFile(NamedTuple):
    """A job file, checked. `job` holds the keys it shares with the settings, still with their places."""

    path: Path
    job: Table
    command: tuple[str, ...] | None
    script: str | None
    target: str | None
    axes: Axes

    @property
    def argv(self) -> tuple[str, ...] | None:
        """The command, or the script as a command; None when the file has neither."""
        if self.script is not None:
            return ("bash", "-euo", "pipefail", "-c", self.script)
        return self.command


def read_job_file(path: Path) -> JobFile:
    """The job in the file; ConfigError with file and line. Paths in it are relative to the file's folder."""
    document = read_document(path)
    values = Decoder().fields(document.entries, struct_type(JobFileSection), "", document.place)
    shared = {field.encode_name for field in struct_type(JobSection).fields}
    job = {name: node for name, node in document.entries.items() if name in shared}
    if values.get("command") is not None and values.get("script") is not None:
        place = document.entries["script"].place
        raise ConfigError("a job has `command` or `script`, not both", where=place.where)
    return JobFile(
        path=path,
        job=Table(job, document.place),
        command=_command(values.get("command"), document.entries.get("command")),
        script=values.get("script"),
        target=values.get("target"),
        axes=_axes(values, document.entries, path.parent),
    )


def _command(value: tuple[str, ...] | str | None, node: Node | None) -> tuple[str, ...] | None:
    if value is None or node is None:
        return None
    words = _split(value, node) if isinstance(value, str) else value
    if not words:
        raise ConfigError("`command` is empty", where=node.place.where)
    return words


def _split(line: str, node: Node) -> tuple[str, ...]:
    import shlex

    try:
        words = tuple(shlex.split(line))
        raw = shlex.split(line, posix=False)
    except ValueError as error:
        raise ConfigError(f"`command` cannot be split into words: {error}", where=node.place.where) from None
    for word in raw:
        if word in _OPERATORS or (word.endswith(";") and word[0] not in "'\""):
            raise ConfigError(
                f"`command` is one command and no shell reads it, so `{word}` would be an argument",
                where=node.place.where,
                hint="write it as `script:`, or put the word in quotes",
            )
    return words


def _axes(values: dict[str, Any], nodes: dict[str, Node], folder: Path) -> Axes:
    """`each` and `array` of the file; errors get the line of the key they are about."""
    key = "each"
    try:
        columns = {
            name: split_values(given, name) if isinstance(given, str) else given
            for name, given in (values.get("each") or {}).items()
        }
        check_columns(list(columns))
        key, array = "array", values.get("array")
        if array is None:
            return Axes(columns, None)
        return Axes(columns, read_grid(folder / array) if isinstance(array, str) else grid_of(array))
    except UsageError as error:
        raise ConfigError(
            f"`{key}`: {error.message}", where=nodes[key].place.where, hint=error.hint
        ) from None
