"""Finds the project's file, and checks what each file says by itself."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gofer.config.nodes import Items, Node, Scalar, Table, is_null
from gofer.errors import ConfigError

PROJECT_FILE = "gofer.yaml"


def find_project_file(folder: Path, home: Path) -> Path | None:
    """The nearest `gofer.yaml` in `folder` or above it, or None."""
    return find_above(folder, home, PROJECT_FILE)


def find_above(folder: Path, home: Path, name: str) -> Path | None:
    """The nearest file or folder called `name` in `folder` or above it, or None.

    The search ends with the root of a git work tree, and before the home folder, `/` and any folder that
    everybody may write to: what lies there is not this project's, and may be anybody's.
    """
    folder = Path(os.path.abspath(folder))
    for candidate in (folder, *folder.parents):
        if candidate != folder and is_common_ground(candidate, home):
            return None
        if os.path.lexists(candidate / name):
            return candidate / name
        if os.path.lexists(candidate / ".git"):
            return None
    return None


def is_common_ground(folder: Path, home: Path) -> bool:
    """Whether it is the home folder, `/`, or a folder that everybody may write to."""
    if folder in (home, Path(folder.anchor)):
        return True
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return True


def read_files(path: Path) -> dict[Path, Table]:
    """The checked keys of a file and of the files that it extends, by their paths: the weakest file first.

    ConfigError for a file that is wrong, absent, or extends itself.
    """
    found: dict[Path, Table] = {}
    _read_extended(path, (), found)
    return found


def _read_extended(path: Path, above: tuple[Path, ...], found: dict[Path, Table]) -> None:
    entries = read_file(path)
    node = entries.entries.get("extends")
    for name in node.items if isinstance(node, Items) else [node] if node is not None else []:
        if not isinstance(name, Scalar):
            continue  # `read_file` has refused anything else
        other = Path(os.path.normpath(path.parent / os.path.expanduser(name.text)))
        if other in (*above, path):
            circle = " extends ".join(f"`{one.name}`" for one in (*above, path, other))
            raise ConfigError(f"a file extends itself: {circle}", where=name.place.where)
        if not os.path.isfile(other):
            hint = "a relative path starts in the folder of the file that names it"
            raise ConfigError(f"`extends`: there is no file `{other}`", where=name.place.where, hint=hint)
        if other not in found:
            _read_extended(other, (*above, path), found)
    found[path] = entries


def read_file(path: Path) -> Table:
    """The checked keys of one file, all but the inside of each target; ConfigError with file and line."""
    from gofer.config.decode import Decoder, struct_type, unknown_key
    from gofer.config.document import read_document
    from gofer.config.sections import FileSection

    document = read_document(path)
    # A heading with nothing under it says nothing.
    entries = {name: node for name, node in document.entries.items() if not is_null(node)}
    shape = struct_type(FileSection)
    known = {"targets", *(field.encode_name for field in shape.fields)}
    for name, node in entries.items():
        if name not in known:
            raise unknown_key(name, node.place, inside="", known=known)
    plain = {name: node for name, node in entries.items() if name != "targets"}
    Decoder(partial=True).fields(plain, shape, "", document.place)
    if "targets" in entries:
        _check_targets(entries["targets"])
    return Table(entries, document.place)


def _check_targets(targets: Node) -> None:
    from gofer.config.decode import check_name
    from gofer.config.sections import ENTRIES

    if not isinstance(targets, Table):
        raise ConfigError("`targets` must be a map", where=targets.place.where)
    for name, node in targets.entries.items():
        check_name(name, ENTRIES, "targets", node.place)
        if not isinstance(node, Table):
            hint = f"write `{name}: {{kind: local}}`"
            raise ConfigError(f"`targets.{name}` must be a map", where=node.place.where, hint=hint)
