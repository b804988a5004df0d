"""Combines flags, environment, job file (`--job FILE.yaml`), target, project, user and built-in values into
one Job.

Every layer becomes the same kind of table, so that a value is read and checked in the same way wherever it is
written. References in `env` stay references until the run's secrets are encrypted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gofer.config.arrays import Axes, check_columns, grid_of, read_grid, split_values
from gofer.config.sections import ElasticSection, JobFileSection, JobSection, NodeRange, StorePlace
from gofer.config.settings import Settings
from gofer.config.yaml.decode import Decoder, check_text, excerpt, struct_type
from gofer.config.yaml.document import read_document
from gofer.config.yaml.nodes import BUILT_IN, Items, Node, Scalar, Table, ValueOrigin, is_null, merged, table
from gofer.errors import ConfigError, UsageError
from gofer.model.job import ElasticJob, Job, Resources

_OPERATORS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>&1", "2>"})

_MAPS = ("env", "tags")
_RESOURCES = ("gpus", "nodes", "procs", "cpus", "memory", "gpu_type")
_RENAMED = {"time_limit": "time_limit_s", "grace": "grace_s"}
_FLAGS = {
    "env": "-e",
    "tags": "--tag",
    "multi_process": "--single",
    "cpus": "--cpus",
    "gpu_type": "--gpu-type",
}


class JobFile(NamedTuple):
    """A job file, checked. `job` holds the keys it shares with the settings, still with their places.
    `code` is `STORE:PATH`, for code that lies in a store.
    """

    path: Path
    job: Table
    command: tuple[str, ...] | None
    script: str | None
    target: str | None
    axes: Axes
    code: str | None = None
    outputs_to: StorePlace | None = None
    ignore: tuple[str, ...] = ()

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
        code=None if values.get("code") is None else str(values["code"]),
        outputs_to=values.get("outputs_to"),
        ignore=tuple(values.get("ignore") or ()),
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


class JobFlags(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job as given on the command line or by a caller from Python; None and empty mean not given."""

    name: str | None = None
    gpus: int | None = None
    nodes: int | dict[str, int] | None = None
    elastic: dict[str, Any] | None = None
    procs: int | None = None
    cpus: int | None = None
    memory: str | None = None
    gpu_type: str | None = None
    env: dict[str, str] = {}
    tags: dict[str, str] = {}
    sync: tuple[str, ...] | None = None
    keep: str | None = None
    keep_group: str | None = None
    keep_most: str | None = None
    outputs: tuple[str, ...] | None = None
    setup: str | None = None
    time_limit_s: float | None = None
    grace_s: float | None = None
    retries: int | None = None
    retry_on: tuple[str, ...] | None = None
    priority: int | None = None
    multi_process: bool | None = None
    rank_variables: str | None = None
    launcher: str | None = None
    packages: str | None = None
    wheels: str | None = None


class JobValue(NamedTuple):
    """One field of a job with its origin."""

    value: Any
    origin: str


def build_job(
    command: Sequence[str],
    flags: JobFlags,
    job_file: JobFile | None,
    settings: Settings,
    target_name: str,
) -> Job:
    """The job to submit to `target_name`; UsageError or ConfigError naming where a wrong value was written.

    A command on the command line replaces that of the job file. Looks up no secret.
    """
    argv = tuple(command) or (job_file.argv if job_file else None) or ()
    if not argv:
        where = f"in `{job_file.path}`" if job_file else "given"
        raise UsageError(f"no command {where}", hint="`gofer submit python train.py` runs one")
    for word in argv:
        check_text(word, "an argument of the command")
    if not argv[0]:
        raise UsageError("the command's first word, the program, is empty")
    found = job_values(flags, job_file, settings, target_name)
    values = {_RENAMED.get(key, key): one.value for key, one in found.items() if one.value is not None}
    values.update(_elastic_values(values.pop("nodes", None), values.pop("elastic", None)))
    resources = Resources(**{key: values.pop(key) for key in _RESOURCES if key in values})
    return Job(command=argv, resources=resources, **values)


def _elastic_values(nodes: int | NodeRange | None, elastic: ElasticSection | None) -> dict[str, Any]:
    """The fields `nodes` and `elastic` of the job. How nodes join counts only where their number changes."""
    if not isinstance(nodes, NodeRange):
        return {} if nodes is None else {"nodes": nodes}
    rules = ElasticSection() if elastic is None else elastic
    lengths = {
        "join_every_s": rules.join_every,
        "join_patience_s": rules.join_patience,
        "settle_s": rules.settle,
    }
    given: dict[str, Any] = {name: value for name, value in lengths.items() if value is not None}
    job = ElasticJob(
        min_nodes=nodes.min, max_nodes=nodes.max, join=rules.join, checkpoint=rules.checkpoint, **given
    )
    return {"nodes": nodes.max, "elastic": job}


def job_values(
    flags: JobFlags, job_file: JobFile | None, settings: Settings, target_name: str | None
) -> dict[str, JobValue]:
    """Every field of a job with its value and origin; the value is None where no layer sets it."""
    decoder = Decoder(settings.resolve)
    nodes = job_nodes(flags, job_file, settings, target_name)
    values = {}
    for field in struct_type(JobSection).fields:
        node = nodes[field.name]
        if node is None:
            values[field.name] = JobValue(built_in(field.name), BUILT_IN.origin)
        else:
            value = _checked(decoder.value(node, field.type, field.name), field.name, node)
            values[field.name] = JobValue(value, _origin(node))
    return values


def job_nodes(
    flags: JobFlags, job_file: JobFile | None, settings: Settings, target_name: str | None
) -> dict[str, Node | None]:
    """Every field of a job as the nearest layer writes it; None where no layer sets it."""
    layers = [flag_layer(flags), *settings.job_layers(target_name)]
    if job_file is not None:
        layers.insert(2, job_file.job)  # behind flags and environment
    nodes: dict[str, Node | None] = {}
    for field in struct_type(JobSection).fields:
        node = _joined(layers, field.name) if field.name in _MAPS else _nearest(layers, field.name)
        nodes[field.name] = None if node is None or is_null(node) else node
    if _rank(layers, "procs") < _rank(layers, "multi_process"):
        nodes["multi_process"] = None  # both say how many processes a node has, and the nearer one counts
    return nodes


def _rank(layers: Sequence[Table], key: str) -> int:
    """The position of the nearest layer with the key; after the last layer when none has it."""
    return next((at for at, layer in enumerate(layers) if key in layer.entries), len(layers))


def flag_layer(flags: JobFlags) -> Table:
    """The flags that were given, as nodes."""
    entries: dict[str, Node] = {}
    for field in struct_type(JobSection).fields:
        value = getattr(flags, _RENAMED.get(field.name, field.name))
        if value is not None and value != {}:
            place = ValueOrigin(f"flag {_FLAGS.get(field.name, '--' + field.name.replace('_', '-'))}")
            entries[field.name] = _node(value, place)
    return Table(entries, ValueOrigin("flags"))


def _node(value: object, place: ValueOrigin) -> Node:
    if isinstance(value, Mapping):
        return Table({str(name): _node(one, place) for name, one in value.items()}, place)
    if isinstance(value, (list, tuple)):
        return Items(tuple(_node(one, place) for one in value), place)
    if isinstance(value, bool):
        return Scalar("true" if value else "false", place)
    if isinstance(value, float):
        return Scalar(f"{value:.6f}", place)
    # Text from a caller is text, never `null`: quoted, in the words of a file.
    return Scalar(str(value), place, plain=not isinstance(value, str))


def _nearest(layers: Sequence[Table], key: str) -> Node | None:
    return next((layer.entries[key] for layer in layers if key in layer.entries), None)


def _joined(layers: Sequence[Table], key: str) -> Node | None:
    """A map merged over all layers, without the names that a layer sets to nothing."""
    joined: Node | None = None
    for layer in reversed(layers):
        joined = merged(joined, layer.entries.get(key))
    if isinstance(joined, Table):
        return Table({name: node for name, node in joined.entries.items() if not is_null(node)}, joined.place)
    return joined


def _origin(node: Node) -> str:
    """A map's origin is that of its entries, which may be several."""
    origins = dict.fromkeys(entry.place.origin for entry in table(node).values())
    return ", ".join(origins) or node.place.origin


def built_in(key: str) -> Any:
    """The model's own default, which is the only place it is written."""
    owner = Resources if key in _RESOURCES else Job
    for field in struct_type(owner).fields:
        if field.name == _RENAMED.get(key, key):
            return field.default_factory() if callable(field.default_factory) else field.default
    raise KeyError(key)


def _texts(value: object) -> list[str]:
    """All text in the value of a field: itself, or what a map or a list holds."""
    if isinstance(value, str):
        return [value]
    held = [*value, *value.values()] if isinstance(value, dict) else value
    return [one for one in held if isinstance(one, str)] if isinstance(held, (list, tuple)) else []


def _checked(value: Any, key: str, node: Node) -> Any:
    """Check what types cannot express: text that no process can receive, names that would break a listing."""
    try:
        for text in _texts(value):
            check_text(text, f"`{key}`")
    except UsageError as error:
        raise ConfigError(error.message, where=node.place.where) from None
    if key == "name" and not value.isprintable():
        raise ConfigError(f"`name` must be one printable line, not {excerpt(value)}", where=node.place.where)
    return value
