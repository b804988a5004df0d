"""Reads a YAML file as a tree of nodes with their lines.

Uses PyYAML's event stream and not its composer: the C composer recurses and crashes the interpreter on deep
nesting (PyYAML 6.0.3), and values must keep the text as written. Tags, several documents and duplicate keys
are errors; anchors, aliases and merge keys work.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gofer.config.yaml.nodes import Items, Node, Scalar, Table, ValueOrigin
from gofer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaml.events import Event

MOST_BYTES = 4 << 20
MOST_DEPTH = 50
_TEXT_TAG = "tag:yaml.org,2002:str"


def read_document(path: Path) -> Table:
    """The file's map, empty for an empty file. ConfigError, with file and line, for anything else."""
    return parse_document(read_text(path), source=path.name, path=display(path))


def parse_document(text: str, *, source: str, path: str | None = None) -> Table:
    """As `read_document`, from text; `source` and `path` are how the places in it are called."""
    from yaml import MarkedYAMLError, YAMLError

    try:
        node = _Builder(_events(text), source, path).document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _broken(
            str(error.problem), text, ValueOrigin(source, mark.line + 1 if mark else 1, path)
        ) from None
    except YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        reason = getattr(error, "reason", "it cannot be read")
        raise _broken(str(reason), text, ValueOrigin(source, line, path)) from None
    if isinstance(node, Scalar) and node.is_null:
        return Table({}, node.place)
    if not isinstance(node, Table):
        raise ConfigError(
            "the file must be a map of keys and values",
            where=node.place.where,
            hint="begin with a line like `target: local`",
        )
    return node


def display(path: Path) -> str:
    """The path as a person would type it from here: relative below the current folder, else whole."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def read_text(path: Path) -> str:
    """The file as text; ConfigError when it is unreadable, too large or not UTF-8."""
    shown = display(path)
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read `{shown}`: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise ConfigError(
            f"`{shown}` is larger than {MOST_BYTES >> 20} MiB, too large for a file of settings"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("the file is not UTF-8 text", where=f"{shown}:{line}") from None


def _events(text: str) -> Iterator[Event]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return iter(yaml.parse(text, Loader=loader))


def _broken(problem: str, text: str, place: ValueOrigin) -> ConfigError:
    line = text.split("\n")[(place.line or 1) - 1 :][:1]
    hint = None
    if line and line[0][: len(line[0]) - len(line[0].lstrip())].count("\t"):
        hint = "indent with spaces: YAML takes no tabs"
    elif line and "${" in line[0] and "{" in line[0].split("${")[0]:
        hint = 'inside `{…}` put quotes round a reference: `"${secret:NAME}"`'
    elif "mapping values" in problem:
        hint = "put quotes around a value that contains `: `"
    return ConfigError(f"not valid YAML: {' '.join(problem.split())}", where=place.where, hint=hint)


class _Builder:
    """Reads the event stream once, left to right."""

    def __init__(self, events: Iterator[Event], source: str, path: str | None) -> None:
        self._events = events
        self._source = source
        self._path = path
        self._anchors: dict[str, Node | None] = {}

    def document(self) -> Node:
        from yaml import DocumentEndEvent, DocumentStartEvent, StreamEndEvent, StreamStartEvent

        root: Node = Scalar("", ValueOrigin(self._source, 1, self._path))
        documents = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise ConfigError("a second document (`---`) begins here", where=self._place(event).where)
            elif not isinstance(event, (StreamStartEvent, DocumentEndEvent, StreamEndEvent)):
                root = self._node(event, MOST_DEPTH)
        return root

    def _place(self, event: Event) -> ValueOrigin:
        return ValueOrigin(self._source, (event.start_mark.line if event.start_mark else 0) + 1, self._path)

    def _node(self, event: Event, depth: int) -> Node:
        from yaml import AliasEvent, MappingStartEvent, ScalarEvent

        place = self._place(event)
        if isinstance(event, AliasEvent):
            return self._alias(event, place)
        tag, anchor = getattr(event, "tag", None), getattr(event, "anchor", None)
        if tag not in (None, "!", _TEXT_TAG):
            raise ConfigError(
                f"the YAML tag `{tag}` is not used here", where=place.where, hint="leave the tag out"
            )
        if depth == 0:
            raise ConfigError(f"nested deeper than {MOST_DEPTH} levels", where=place.where)
        if anchor:
            self._anchors[anchor] = None
        node: Node
        if isinstance(event, ScalarEvent):
            node = Scalar(str(event.value), place, plain=not event.style and tag is None)
        elif isinstance(event, MappingStartEvent):
            node = self._table(place, depth - 1)
        else:
            node = self._items(place, depth - 1)
        if anchor:
            self._anchors[anchor] = node
        return node

    def _alias(self, event: Event, place: ValueOrigin) -> Node:
        name = str(getattr(event, "anchor", ""))
        if name not in self._anchors:
            raise ConfigError(f"the alias `*{name}` names no anchor above it", where=place.where)
        node = self._anchors[name]
        if node is None:
            raise ConfigError(f"the alias `*{name}` is inside its own anchor", where=place.where)
        return node

    def _items(self, place: ValueOrigin, depth: int) -> Items:
        from yaml import SequenceEndEvent

        items: list[Node] = []
        for event in self._events:
            if isinstance(event, SequenceEndEvent):
                break
            items.append(self._node(event, depth))
        return Items(tuple(items), place)

    def _table(self, place: ValueOrigin, depth: int) -> Table:
        from yaml import MappingEndEvent

        own: dict[str, Node] = {}
        inherited: dict[str, Node] = {}
        for event in self._events:
            if isinstance(event, MappingEndEvent):
                break
            key = self._node(event, depth)
            value = self._node(next(self._events), depth)
            if not isinstance(key, Scalar):
                raise ConfigError("a key must be a single word", where=key.place.where)
            if key.text == "<<" and key.plain:
                inherited = _merge_key(value, key.place) | inherited
            elif key.text in own:
                first = own[key.text].place.line
                raise ConfigError(
                    f"`{key.text}` is given twice, first in line {first}", where=key.place.where
                )
            else:
                own[key.text] = value._replace(place=key.place)
        return Table(inherited | own, place)


def _merge_key(value: Node, place: ValueOrigin) -> dict[str, Node]:
    """The entries a `<<` brings in; of several tables the first to name a key wins."""
    tables = value.items if isinstance(value, Items) else (value,)
    entries: dict[str, Node] = {}
    for one in tables:
        if not isinstance(one, Table):
            raise ConfigError("`<<` takes a map or a list of maps", where=place.where)
        entries = one.entries | entries
    return entries
