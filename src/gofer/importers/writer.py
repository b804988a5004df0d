"""Writes settings as YAML in the style of a person, to a new file or into the text of an existing gofer.yaml.

What a person wrote in an existing file, also comments, stays unchanged. New names go behind the existing
ones. A name that exists with another value is a conflict and is never replaced. The result is read again and
compared with what it should say, so that a file with an unusual layout is refused and not damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from gofer.config.document import parse_document
from gofer.config.nodes import Items, Node, Table, is_null
from gofer.errors import ConfigError
from gofer.importers.draft import Entry, Value

Plain = Any


@cache
def _dumper() -> type[Any]:
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        # A block of nothing but line ends reads differently behind another key than alone.
        plain = value.replace("\n", "").isprintable() and (value.strip() or "\n" not in value)
        # Where a block cannot hold the text, the writer takes quotes by itself.
        style = ("|" if "\n" in value else None) if plain else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
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
    text = str(yaml.dump(value, Dumper=_dumper(), width=2**31, **style))
    return text.removesuffix("...\n").strip()


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


def _edits(text: str, root: Any, lacking: Entry, comments: Mapping[str, str]) -> list[_Edit]:
    is_map = root is not None and not isinstance(root.value, str)
    if is_map and root.flow_style:
        return _into(text, root, lacking, "".join(comments.values()))
    entries = {key.value: value for key, value in root.value} if is_map else {}
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


def _is_empty(node: Any) -> bool:
    return isinstance(node.value, str) and not node.style and node.value in ("", "~", "null", "Null", "NULL")


def _under(text: str, node: Any, lines: str) -> list[_Edit]:
    """Lines for a key that says nothing; a `null` that is written out makes room."""
    end = text.find("\n", node.end_mark.index)
    if end < 0:
        return [_Edit(node.start_mark.index, len(text), f"\n{lines}")]
    return [_Edit(node.start_mark.index, node.end_mark.index, ""), _Edit(end + 1, end + 1, lines)]


def _into(text: str, node: Any, value: Any, comment: str) -> list[_Edit]:
    """Put `value` into a map or a list that is there."""
    edits: list[_Edit] = []
    added: Any = value
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


def _replace_or_fill(text: str, holder: Any, node: Any, value: Any) -> list[_Edit]:
    """Put `value` where a key is already, with nothing or with a part of it."""
    if not _is_empty(node):
        return _into(text, node, value, "")
    if holder.flow_style:
        return [_Edit(node.start_mark.index, node.end_mark.index, f" {to_flow(value)}")]
    if not isinstance(value, dict):
        return [_Edit(node.start_mark.index, node.end_mark.index, f" {to_flow(value)}")]
    return _under(text, node, indented(to_yaml(value), holder.value[0][0].start_mark.column + 2))


def _into_flow(text: str, node: Any, value: Any) -> _Edit:
    at = node.end_mark.index - 1
    before = text[:at].rstrip()
    comma = "" if before.endswith((",", "{", "[")) else ", "
    return _Edit(len(before), at, f"{comma}{to_flow(value)[1:-1]}")


def _behind(text: str, node: Any, lines: str) -> _Edit:
    """Behind the last line of a block, before comments that belong to what follows."""
    last = node
    while not isinstance(last.value, str) and not last.flow_style and last.value:
        final = last.value[-1]
        key, inner = final if isinstance(final, tuple) else (None, final)
        # An alias stands where its anchor does, which is somewhere else.
        last = key if key is not None and inner.start_mark.index < key.end_mark.index else inner
    at = last.end_mark.index
    if at == 0 or text[at - 1] != "\n":
        end = text.find("\n", at)
        if end < 0:
            return _Edit(len(text), len(text), f"\n{lines}")
        at = end + 1
    return _Edit(at, at, lines)
