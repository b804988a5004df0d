"""Settings that somebody shares: a file, an object in a store, or a file of a Python package. A person adds a
copy to their own settings, after reading what it sets, since the options of a target can run programs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.project import package_file
from gofer.config.yaml.document import MOST_BYTES, display, parse_document, read_text
from gofer.config.yaml.file import write_settings
from gofer.config.yaml.nodes import Items, Node, Scalar
from gofer.config.yaml.text import Value, put
from gofer.errors import ConfigError, UsageError
from gofer.importers.draft import safe_name
from gofer.importers.keys import dotted, leaves
from gofer.ops.data.contents import read
from gofer.ops.data.places import resolve
from gofer.ops.settings.config_edit import check_change

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.ops.settings.config_edit import SettingsFile

_FOLDER = "shared"
_HEAD = "# The source of this copy, for `gofer config add`: "
_LOCAL = ("./", "../", "/", "~")


class SharedSettings(NamedTuple):
    """A copy that was not written yet. `extended` is the text of the file of settings that names the copy.
    `before` and `after` are the values that the copy has and will have, by their keys.
    """

    path: Path
    text: str
    extended: str
    before: dict[str, str]
    after: dict[str, str]


def read_shared(session: Session, file: SettingsFile, name: str, source: str | None) -> SharedSettings:
    """Read the source, or again that of the copy of this name, and check it together with all other settings.

    UsageError without a source, ConfigError for a file that gofer could not use.
    """
    if safe_name(name) != name:
        hint = "use letters, digits, `_`, `.` and `-`, and begin with a letter or a digit"
        raise UsageError(f"`{name}` cannot be the name of shared settings", hint=hint)
    path = file.path.parent / _FOLDER / f"{name}.yaml"
    old = read_text(path) if path.exists() else ""
    source = source or _source_of(old)
    if source is None:
        raise UsageError(
            f"nothing is shared under the name `{name}` yet",
            hint=f"name the source: `gofer config add {name} FILE`, `store:path` or `python:PACKAGE/FILE`",
        )
    if _is_local(session, source):
        source = os.path.normpath(session.folder / os.path.expanduser(source))
    text = f"{_HEAD}{source}\n{_text(session, source)}"
    extended = _extended(file, f"{_FOLDER}/{name}.yaml")
    check_change(session, file, extended, {path: text})
    return SharedSettings(path, text, extended, _values(old, path), _values(text, path))


def write_shared(file: SettingsFile, shared: SharedSettings) -> None:
    """Write the copy, and name it in the file of settings."""
    write_settings(shared.path, shared.text, private=file.is_user_file)
    if shared.extended != file.text:
        file.write(shared.extended)


def _is_local(session: Session, source: str) -> bool:
    return source.startswith(_LOCAL) or os.path.isfile(session.folder / source)


def _text(session: Session, source: str) -> str:
    if source.startswith("/"):
        return read_text(Path(source))
    found = package_file(source)
    if found is not None:
        return read_text(found)
    data = b""
    for piece in read(resolve(session, source)):
        data += piece
        if len(data) > MOST_BYTES:
            raise ConfigError(f"`{source}` is too large for a file of settings")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"`{source}` is not UTF-8 text") from None


def _source_of(text: str) -> str | None:
    first = text.partition("\n")[0]
    return first.removeprefix(_HEAD) if first.startswith(_HEAD) else None


def _extended(file: SettingsFile, name: str) -> str:
    """The file's text with the copy among the files that it extends."""
    node = parse_document(file.text, source=file.path.name, path=file.shown).entries.get("extends")
    names = [*_texts(node)]
    if name in names:
        return file.text
    value: list[Value] = [*names, name]
    return put(file.text, ["extends"], value, file.shown)


def _texts(node: Node | None) -> list[str]:
    items = node.items if isinstance(node, Items) else (node,)
    return [item.text for item in items if isinstance(item, Scalar) and not item.is_null]


def _values(text: str, path: Path) -> dict[str, str]:
    """The values of a text by their keys, as one line each."""
    document = parse_document(text, source=path.name, path=display(path))
    return {dotted(key): ", ".join(_texts(node)) for key, node in leaves(document)}
