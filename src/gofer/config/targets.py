"""A target of the settings: its kind, its store, its defaults for jobs, and the options of its kind.

The caller passes the kinds: a map from the word in `kind:` to the Struct of the kind's options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.yaml.nodes import Node, Scalar, ValueOrigin, is_null, table
from gofer.config.yaml.problems import STRICT, Problems
from gofer.errors import ConfigError, UsageError
from gofer.text import did_you_mean

if TYPE_CHECKING:
    import msgspec

    Kinds = Mapping[str, type[msgspec.Struct]]

OWN_KEYS = ("kind", "store", "job", "folders", "ignore", "default_gpus")


class Target(NamedTuple):
    """One target. Text in `options` keeps its references; `Settings.resolve` looks them up when needed."""

    name: str
    kind: str
    store: str
    options: msgspec.Struct
    job: Node | None
    place: ValueOrigin


def read_target(
    name: str,
    node: Node,
    kinds: Kinds,
    resolve: Callable[[str], str] | None = None,
    problems: Problems = STRICT,
) -> Target:
    """The target with all its options; ConfigError with file and line.

    Without `resolve` the target is only checked, and `options` may be missing.
    """
    # msgspec is slow to load, and a command without any file of settings decodes none.
    from gofer.config.sections import DEFAULT_GPUS, FOLDERS, IGNORE, JobSection
    from gofer.config.yaml.decode import Decoder, struct_type

    key, entries = f"targets.{name}", table(node)
    kind = _kind(key, node, kinds)
    known = {word: value for word, value in entries.items() if word not in OWN_KEYS}
    shape = struct_type(kinds[kind])
    _check_keys(known, shape, key, problems)
    known = {word: value for word, value in known.items() if word in _words(shape)}
    options = Decoder(resolve, problems=problems).struct(known, shape, key, node.place)
    shapes = {
        "job": struct_type(JobSection),
        "folders": FOLDERS,
        "ignore": IGNORE,
        "default_gpus": DEFAULT_GPUS,
    }
    for word, kind_of_it in shapes.items():
        given = entries.get(word)
        if given is not None and not is_null(given):
            with problems:
                Decoder(problems=problems).value(given, kind_of_it, f"{key}.{word}")
    store = _word(entries.get("store"), f"{key}.store") or "default"
    return Target(name, kind, store, options, entries.get("job"), node.place)


def check_no_group(name: str, groups: Mapping[str, tuple[str, ...]]) -> None:
    """UsageError when the name is that of a group, where one target is needed."""
    if name in groups:
        names = groups[name]
        if not names:
            raise UsageError(
                f"the group `{name}` has no targets", hint=f"write them into `target_groups.{name}`"
            )
        listed = ", ".join(f"`{one}`" for one in names)
        raise UsageError(
            f"`{name}` is a group of targets, and this command needs one of them: {listed}",
            hint=f"`-c {names[0]}` chooses it",
        )


def check_group_names(groups: Mapping[str, Node], targets: Mapping[str, Node]) -> None:
    """ConfigError when a group has the name of a target."""
    for name, node in groups.items():
        if name in targets:
            raise ConfigError(
                f"`target_groups.{name}`: there is a target `{name}` too ({targets[name].place.where})",
                where=node.place.where,
                hint="give the group another name",
            )


def check_store(owner: str, node: Node, stores: Mapping[str, Node]) -> None:
    """ConfigError when the table's `store` names none of `stores`."""
    word = table(node).get("store")
    if isinstance(word, Scalar) and not word.is_null and word.text not in stores:
        raise ConfigError(
            f"`{owner}.store`: there is no store `{word.text}`",
            where=word.place.where,
            hint=did_you_mean(word.text, stores)
            or f"the stores are {', '.join(f'`{one}`' for one in stores)}",
        )


def _kind(key: str, node: Node, kinds: Kinds) -> str:
    given = table(node).get("kind")
    kind = _word(given, f"{key}.kind")
    if kind is None or given is None:
        raise ConfigError(f"`{key}` needs the key `kind`", where=node.place.where, hint=_listed(kinds))
    if kind not in kinds:
        hint = did_you_mean(kind, kinds) or _listed(kinds)
        raise ConfigError(
            f"`{key}.kind`: there is no kind of target `{kind}`", where=given.place.where, hint=hint
        )
    return kind


def _listed(kinds: Kinds) -> str:
    return f"the kinds are {', '.join(f'`{one}`' for one in sorted(kinds))}"


def _word(node: Node | None, key: str) -> str | None:
    if node is None or is_null(node):
        return None
    if not isinstance(node, Scalar):
        raise ConfigError(f"`{key}` must be text", where=node.place.where)
    return node.text


def _words(shape: msgspec.inspect.StructType) -> list[str]:
    return [field.encode_name for field in shape.fields]


def _check_keys(
    options: Mapping[str, Node], shape: msgspec.inspect.StructType, key: str, problems: Problems
) -> None:
    from gofer.config.yaml.decode import unknown_key  # slow to load, as above

    known = _words(shape)
    for name, node in options.items():
        if name not in known:
            problems.add(unknown_key(name, node.place, inside=key, known=[*known, *OWN_KEYS]))
