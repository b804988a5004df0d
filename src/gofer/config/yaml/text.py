"""Writes settings as YAML in the style of a person, to a new file or into the text of an existing gofer.yaml.

What a person wrote in an existing file, also comments, stays unchanged. New names go behind the existing
ones. `join` only adds: a name that exists with another value is a conflict and is never replaced. `put` and
`drop` change one key. The result is read again and compared with what it should say, so that a file with an
unusual layout is refused and not damaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from gofer.config.yaml.document import parse_document
from gofer.config.yaml.nodes import NULLS, Items, Node, Table, is_null
from gofer.errors import ConfigError

if TYPE_CHECKING:
    import yaml

Plain = Any
Value: TypeAlias = "str | int | bool | list[Value] | dict[str, Value]"
Entry: TypeAlias = dict[str, Value]


class Verbatim(str):
    """Text that is written without quotes wherever YAML reads it back as the same characters."""


class _YamlNode(Protocol):
    """A node of PyYAML. Its stubs have no common type for the styles of scalars and of collections."""

    tag: str
    value: Any
    start_mark: yaml.Mark
    end_mark: yaml.Mark
    style: str | None
    flow_style: bool | None


@cache
def _dumper() -> type[yaml.SafeDumper]:
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        # A block of nothing but line ends reads differently behind another key than alone.
        plain = value.replace("\n", "").isprintable() and (value.strip() or "\n" not in value)
        # Where a block cannot hold the text, the writer takes quotes by itself.
        style = ("|" if "\n" in value else None) if plain else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    def verbatim(dumper: yaml.SafeDumper, value: Verbatim) -> yaml.ScalarNode:
        if not value or "\n" in value or not value.isprintable():
            return text(dumper, str(value))
        # With the tag that the plain text has for YAML, the writer needs no quotes to keep a tag of text.
        tag = str(dumper.resolve(yaml.ScalarNode, str(value), (True, False)))  # type: ignore[no-untyped-call]
        is_value = tag.rpartition(":")[2] in ("int", "float", "bool", "null", "timestamp")
        return dumper.represent_scalar(tag if is_value else "tag:yaml.org,2002:str", str(value))

    Dumper.add_representer(str, text)
    Dumper.add_representer(Verbatim, verbatim)
    return Dumper


def to_yaml(value: Value) -> str:
    """The value in block style, with a newline at its end."""
    import yaml

    return str(
        yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=10_000, indent=2)
    )


def to_flow(value: Value) -> str:
    """The value on one line, as it may stand inside `{…}`."""
    import yaml

    style: dict[str, Any] = {"default_flow_style": True, "sort_keys": False, "allow_unicode": True}
    # Inside a list, so that text of several lines stays on one line.
    text = str(yaml.dump([value], Dumper=_dumper(), width=2**31, **style))
    return text.strip()[1:-1]


def indented(text: str, columns: int) -> str:
    """Every line that holds something, moved to the right."""
    return "".join(
        f"{' ' * columns}{line}" if line.strip() else line for line in text.splitlines(keepends=True)
    )


def commented(name: str, entry: Entry, why: str) -> str:
    """A target that gofer cannot use yet, as comment lines that become it without their `# `."""
    lines = to_yaml({name: entry}).splitlines()
    return "".join(f"{line}\n" for line in [f"# {why}", *(f"# {line}" for line in lines)])


def section(name: str, value: Value, comments: Mapping[str, str]) -> str:
    """A key at the top of a file; comments go to the end of `targets`."""
    if name != "targets" or not isinstance(value, dict):
        return to_yaml({name: value})
    body = to_yaml(value) if value else ""
    return f"{name}:\n{indented(body + ''.join(comments.values()), 2)}"


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def plain(node: Node) -> Plain:
    """The tree as texts, lists and maps; nothing is None."""
    if isinstance(node, Table):
        return {name: plain(inner) for name, inner in node.entries.items()}
    if isinstance(node, Items):
        return [plain(inner) for inner in node.items]
    return None if is_null(node) else node.text


def clashes(old: Plain, new: Value, path: str = "") -> list[str]:
    """The keys that both have with different values. Lists are joined, so they never clash with lists."""
    if old is None or (isinstance(old, list) and isinstance(new, list)):
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        inner = [clashes(old.get(name), value, f"{path}.{name}") for name, value in new.items()]
        return [one for found in inner for one in found]
    same = str(old).lower() == _texts(new) if isinstance(new, bool) else old == _texts(new)
    return [] if same else [path.removeprefix(".")]


def join(text: str, new: Entry, comments: Mapping[str, str], shown: str) -> str:
    """`text` with what it lacks of `new`, and with `comments` behind its targets; ConfigError when the layout
    of the file does not allow it. There must be no clashes.
    """
    import yaml

    old = plain(parse_document(text, source=shown, path=shown))
    lacking = _lacking(old, new)
    fresh = {name: one for name, one in comments.items() if not _holds(text, one)}
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    joined = text
    if lacking or fresh:
        edits = [*_edits(text, root, lacking, fresh)]
        for edit in sorted(edits, reverse=True):
            joined = joined[: edit.start] + edit.text + joined[edit.end :]
    if not _says(joined, _sum(old, _texts(new)), shown):
        raise ConfigError(
            f"cannot add to `{shown}` without rewriting it",
            hint="`--dry-run --out NEW.yaml` prints what belongs in it",
        )
    return joined


def put(text: str, keys: Sequence[str], value: Value, shown: str) -> str:
    """`text` with the value under the keys, in place of the value that is there; ConfigError when the layout
    of the file does not allow it.
    """
    import yaml

    old = plain(parse_document(text, source=shown, path=shown))
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    holder, depth = root, 0
    while depth < len(keys) - 1 and (inner := _entry(holder, keys[depth])) is not None:
        if isinstance(inner[1].value, str):
            break
        holder, depth = inner[1], depth + 1
    found = _entry(holder, keys[depth])
    rest: Value = value
    for key in reversed(keys[depth + 1 :]):
        rest = {key: rest}
    if found is None:
        changed = join(text, _nested(keys, value), {}, shown)
    else:
        edit = _in_place(text, holder, *found, rest)
        changed = text[: edit.start] + edit.text + text[edit.end :]
    return _checked(changed, _with(old, keys, _texts(value)), shown)


def drop(text: str, keys: Sequence[str], shown: str) -> str:
    """`text` without the key, and without the maps that have no other key; the same text when the key is
    absent. ConfigError when the layout of the file does not allow it.
    """
    import yaml

    old = plain(parse_document(text, source=shown, path=shown))
    chain = [yaml.compose(text, Loader=yaml.SafeLoader)]
    for key in keys:
        found = _entry(chain[-1], key)
        if found is None:
            return text
        chain.append(found[1])
    depth = len(keys) - 1
    while depth and len(chain[depth].value) == 1:
        depth -= 1
    edit = _removal(text, chain[depth], keys[depth])
    changed = text[: edit.start] + edit.text + text[edit.end :]
    return _checked(changed, _without(old, keys[: depth + 1]), shown)


def _checked(text: str, wanted: Plain, shown: str) -> str:
    if not _says(text, wanted, shown):
        raise ConfigError(
            f"cannot change this key of `{shown}` without rewriting other lines",
            hint="`gofer config edit` opens the file in an editor",
        )
    return text


def _entry(holder: _YamlNode | None, key: str) -> tuple[_YamlNode, _YamlNode] | None:
    """The nodes of a key and its value in a map."""
    if holder is None or isinstance(holder.value, str):
        return None
    pairs = [pair for pair in holder.value if isinstance(pair, tuple)]
    return next(((name, value) for name, value in pairs if name.value == key), None)


def _nested(keys: Sequence[str], value: Value) -> Entry:
    first, *rest = keys
    return {first: _nested(rest, value) if rest else value}


def _with(old: Plain, keys: Sequence[str], value: Plain) -> Plain:
    if not keys:
        return value
    entries = old if isinstance(old, dict) else {}
    return {**entries, keys[0]: _with(entries.get(keys[0]), keys[1:], value)}


def _without(old: Plain, keys: Sequence[str]) -> Plain:
    entries = {key: inner for key, inner in old.items() if key != keys[0]}
    return entries if len(keys) == 1 else {**old, keys[0]: _without(old[keys[0]], keys[1:])}


def _in_place(text: str, holder: _YamlNode, key: _YamlNode, node: _YamlNode, value: Value) -> _Edit:
    """The value of a key that is there, replaced by another."""
    is_line = isinstance(node.value, str) and node.style not in ("|", ">")
    has_lines = bool(value) if isinstance(value, (dict, list)) else "\n" in str(value)
    if holder.flow_style or (is_line and not has_lines):
        start, end = node.start_mark.index, node.end_mark.index
        gap = "" if start > 0 and text[start - 1].isspace() else " "
        return _Edit(start, end, gap + to_flow(value))
    lines = indented(to_yaml({"x": value}), key.start_mark.column).lstrip().removeprefix("x:")
    return _Edit(text.index(":", key.end_mark.index) + 1, _end_of_block(text, node), lines)


def _removal(text: str, holder: _YamlNode, key: str) -> _Edit:
    at = next(index for index, (name, _) in enumerate(holder.value) if name.value == key)
    name, node = holder.value[at]
    if not holder.flow_style:
        start = text.rfind("\n", 0, name.start_mark.index) + 1
        return _Edit(start, _end_of_block(text, node if _is_after(node, name) else name), "")
    if at + 1 < len(holder.value):
        return _Edit(name.start_mark.index, holder.value[at + 1][0].start_mark.index, "")
    start = holder.value[at - 1][1].end_mark.index if at else name.start_mark.index
    return _Edit(start, node.end_mark.index, "")


def _is_after(node: _YamlNode, key: _YamlNode) -> bool:
    # An alias has the place of its anchor, which is somewhere else.
    return bool(node.start_mark.index >= key.end_mark.index)


def _says(text: str, wanted: Plain, shown: str) -> bool:
    try:
        return bool(plain(parse_document(text, source=shown, path=shown)) == wanted)
    except ConfigError:
        return False


def _texts(value: Value) -> Plain:
    if isinstance(value, dict):
        return {name: _texts(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_texts(inner) for inner in value]
    if isinstance(value, Verbatim) and value in NULLS:
        return None if value else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lacking(old: Plain, new: Value) -> Any:
    """What of `new` is not in `old`, in the same shape."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = {}
        for name, value in new.items():
            if old.get(name) is None:
                found[name] = value
            elif isinstance(value, (dict, list)):
                inner = _lacking(old[name], value)
                if inner:
                    found[name] = inner
        return found
    if isinstance(old, list) and isinstance(new, list):
        return [item for item in new if _texts(item) not in old]
    return None


def _sum(old: Plain, new: Plain) -> Plain:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{name: _sum(old.get(name), value) for name, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return old + [item for item in new if item not in old]
    return new if old is None else old


def _holds(text: str, comment: str) -> bool:
    """Whether the comment is there already, however far to the right."""
    lines = [line.strip() for line in text.splitlines()]
    wanted = [line.strip() for line in comment.splitlines()]
    return any(lines[at : at + len(wanted)] == wanted for at in range(len(lines)))


def _edits(text: str, root: _YamlNode | None, lacking: Entry, comments: Mapping[str, str]) -> list[_Edit]:
    # An empty text has no root; a text that is one word has a root without entries.
    pairs = [] if root is None or isinstance(root.value, str) else root.value
    if root is not None and root.flow_style and not isinstance(root.value, str):
        return _into(text, root, lacking, "".join(comments.values()))
    entries = {key.value: value for key, value in pairs}
    edits: list[_Edit] = []
    sections = [*lacking, *(["targets"] if comments and "targets" not in lacking else [])]
    for name in sections:
        value = lacking.get(name, {})
        notes = comments if name == "targets" else {}
        node = entries.get(name)
        if node is None:
            edits.append(_at_end(text, section(name, value, notes)))
        elif _is_empty(node):
            edits += _under(text, node, section(name, value, notes).partition("\n")[2])
        else:
            edits += _into(text, node, value, "".join(notes.values()))
    return edits


def _at_end(text: str, addition: str) -> _Edit:
    gap = "" if text.endswith("\n") or not text else "\n"
    return _Edit(len(text), len(text), f"{gap}{addition}")


def _is_empty(node: _YamlNode) -> bool:
    return isinstance(node.value, str) and not node.style and node.value in ("", "~", "null", "Null", "NULL")


def _under(text: str, node: _YamlNode, lines: str) -> list[_Edit]:
    """Lines for a key that says nothing; a `null` that is written out makes room."""
    end = text.find("\n", node.end_mark.index)
    if end < 0:
        return [_Edit(node.start_mark.index, len(text), f"\n{lines}")]
    return [_Edit(node.start_mark.index, node.end_mark.index, ""), _Edit(end + 1, end + 1, lines)]


def _into(text: str, node: _YamlNode, value: Value, comment: str) -> list[_Edit]:
    """Put `value` into a map or a list that is there."""
    edits: list[_Edit] = []
    added: Value = value
    if isinstance(value, dict):
        known = {key.value: inner for key, inner in node.value}
        added = {name: inner for name, inner in value.items() if name not in known}
        for name in [one for one in value if one in known]:
            edits += _replace_or_fill(text, node, known[name], value[name])
    if node.flow_style:
        edits += [_into_flow(text, node, added)] if added else []
        return edits + ([_at_end(text, comment)] if comment else [])
    column = node.value[0][0].start_mark.column if isinstance(value, dict) else node.start_mark.column
    lines = indented((to_yaml(added) if added else "") + comment, column)
    return [*edits, _behind(text, node, lines)] if lines else edits


def _replace_or_fill(text: str, holder: _YamlNode, node: _YamlNode, value: Value) -> list[_Edit]:
    """Put `value` where a key is already, with nothing or with a part of it."""
    if not _is_empty(node):
        return _into(text, node, value, "")
    if holder.flow_style:
        return [_Edit(node.start_mark.index, node.end_mark.index, f" {to_flow(value)}")]
    if not isinstance(value, dict):
        return [_Edit(node.start_mark.index, node.end_mark.index, f" {to_flow(value)}")]
    return _under(text, node, indented(to_yaml(value), holder.value[0][0].start_mark.column + 2))


def _into_flow(text: str, node: _YamlNode, value: Value) -> _Edit:
    at = node.end_mark.index - 1
    before = text[:at].rstrip(" \n")
    comma = "" if before.endswith((",", "{", "[")) else ", "
    return _Edit(len(before), at, f"{comma}{to_flow(value)[1:-1]}")


def _behind(text: str, node: _YamlNode, lines: str) -> _Edit:
    """Behind the last line of a block, before comments that belong to what follows."""
    at = _end_of_block(text, node)
    return _Edit(at, at, lines if text[:at].endswith("\n") else f"\n{lines}")


def _end_of_block(text: str, node: _YamlNode) -> int:
    """Where the line after the last line of a node begins, or the end of the text."""
    last = node
    while not isinstance(last.value, str) and not last.flow_style and last.value:
        final = last.value[-1]
        key, inner = final if isinstance(final, tuple) else (None, final)
        last = key if key is not None and not _is_after(inner, key) else inner
    at: int = last.end_mark.index
    if at and text[at - 1] == "\n":
        return at
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1
