"""The project of a command: its file of settings, and the folder whose code the command takes along.

A file is checked here by itself; `layers` checks what only the combined settings can tell.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gofer.config.yaml.document import display, parse_document, read_document
from gofer.config.yaml.nodes import Items, Node, Scalar, Table, is_null
from gofer.config.yaml.problems import STRICT, Problems
from gofer.errors import ConfigError

PROJECT_FILE = "gofer.yaml"

_PACKAGE = "python:"
GIT = "git"
UV_WORKSPACE = "uv workspace"
CHOSEN = "chosen"

# The root of the git repository that holds a folder and does not ignore it; None without one.
FindRepository = Callable[[Path], Path | None]


def find_project_file(folder: Path, home: Path) -> Path | None:
    """The nearest `gofer.yaml` in `folder` or above it, or None."""
    return find_above(folder, home, PROJECT_FILE)


def find_above(folder: Path, home: Path, name: str) -> Path | None:
    """The nearest file or folder called `name` in `folder` or above it, or None.

    The search ends with the root of a git work tree, and before the home folder, `/` and any folder that
    everybody may write to: a file there does not belong to this project, and anybody may have written it.
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


class FileReader:
    """Reads files of settings. The errors of each file and key are steps of `problems`. `texts` are read
    instead of the files of these paths.
    """

    def __init__(self, problems: Problems = STRICT, texts: Mapping[Path, str] | None = None) -> None:
        self.problems = problems
        self.texts = texts or {}

    def has(self, path: Path) -> bool:
        """Whether there is such a file, or a text instead of it."""
        return path in self.texts or os.path.lexists(path)

    def read(self, path: Path) -> dict[Path, Table]:
        """The checked keys of a file and of the files that it extends, by their paths: the weakest file
        first.

        ConfigError for a file that is wrong, absent, or extends itself.
        """
        found: dict[Path, Table] = {}
        with self.problems:
            self._read_extended(path, (), found)
        return found

    def _read_extended(self, path: Path, above: tuple[Path, ...], found: dict[Path, Table]) -> None:
        if path in self.texts:
            document = parse_document(self.texts[path], source=path.name, path=display(path))
        else:
            document = read_document(path)
        entries = check_file(document, self.problems)
        node = entries.entries.get("extends")
        for name in node.items if isinstance(node, Items) else [node] if node is not None else []:
            if isinstance(name, Scalar):  # `check_file` has refused anything else
                with self.problems:
                    self._extend(path, name, above, found)
        found[path] = entries

    def _extend(self, path: Path, name: Scalar, above: tuple[Path, ...], found: dict[Path, Table]) -> None:
        other = package_file(name.text, where=name.place.where)
        if other is None:
            other = Path(os.path.normpath(path.parent / os.path.expanduser(name.text)))
        if other in (*above, path):
            circle = " extends ".join(f"`{one.name}`" for one in (*above, path, other))
            raise ConfigError(f"a file extends itself: {circle}", where=name.place.where)
        if other not in self.texts and not os.path.isfile(other):
            hint = "a relative path starts in the folder of the file that names it"
            raise ConfigError(f"`extends`: there is no file `{other}`", where=name.place.where, hint=hint)
        if other not in found:
            self._read_extended(other, (*above, path), found)


def package_file(text: str, where: str | None = None) -> Path | None:
    """The file that `python:PACKAGE/FILE` names; None for other text. The package is not imported.

    ConfigError when the environment of gofer has no such package.
    """
    if not text.startswith(_PACKAGE):
        return None
    from importlib.util import find_spec  # few files of settings are in a package

    package, _, rest = text.removeprefix(_PACKAGE).partition("/")
    # `find_spec` would import the packages above a name with dots.
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations or not rest:
        raise ConfigError(
            f"`{text}` names no file of a Python package in the environment of gofer",
            where=where,
            hint=f"write `{_PACKAGE}PACKAGE/FILE`, and install the package beside gofer",
        )
    return Path(os.path.normpath(Path(spec.submodule_search_locations[0]) / rest))


def check_file(document: Table, problems: Problems) -> Table:
    """The checked keys of one file; ConfigError with file and line. The options of targets are checked
    later.
    """
    # msgspec is slow to load, and a command without any file of settings decodes none.
    from gofer.config.sections import FileSection
    from gofer.config.yaml.decode import Decoder, struct_type, unknown_key

    # A heading with nothing under it sets nothing.
    entries = {name: node for name, node in document.entries.items() if not is_null(node)}
    shape = struct_type(FileSection)
    known = {"targets", *(field.encode_name for field in shape.fields)}
    for name, node in entries.items():
        if name not in known:
            problems.add(unknown_key(name, node.place, inside="", known=known))
    plain = {name: node for name, node in entries.items() if name in known and name != "targets"}
    Decoder(partial=True, problems=problems).fields(plain, shape, "", document.place)
    if "targets" in entries:
        with problems:
            _check_targets(entries["targets"], problems)
    return Table(entries, document.place)


def _check_targets(targets: Node, problems: Problems) -> None:
    from gofer.config.sections import ENTRIES
    from gofer.config.yaml.decode import check_name  # slow to load, as above

    if not isinstance(targets, Table):
        raise ConfigError("`targets` must be a map", where=targets.place.where)
    for name, node in targets.entries.items():
        with problems:
            check_name(name, ENTRIES, "targets", node.place)
            if not isinstance(node, Table):
                hint = f"write `{name}: {{kind: local}}`"
                raise ConfigError(f"`targets.{name}` must be a map", where=node.place.where, hint=hint)


class CodeFolder(NamedTuple):
    """`reason` is what makes the folder the project: a file in it, `git`, `uv workspace`, or `chosen` by an
    option; empty for the folder of the command itself.
    """

    path: Path
    reason: str


def find_code_folder(
    folder: Path, home: Path, marked: CodeFolder | None, repository: FindRepository | None
) -> CodeFolder:
    """The project around `folder`: the marked one, else the git repository, else the uv workspace, else
    itself.

    A repository or workspace whose root is the home folder, lies above it or may be written by everybody does
    not count. Reads files only.
    """
    if marked is not None:
        return marked
    root = repository(folder) if repository else None
    if root is not None:
        return (
            CodeFolder(folder, "")
            if root == folder or not _may_be_code(root, home)
            else CodeFolder(root, GIT)
        )
    workspace = next(
        (root for root in _workspaces(folder) if _has_member(root, folder) and _may_be_code(root, home)), None
    )
    return CodeFolder(folder, "") if workspace is None else CodeFolder(workspace, UV_WORKSPACE)


def _may_be_code(root: Path, home: Path) -> bool:
    real_home = Path(os.path.realpath(home))
    return not (real_home.is_relative_to(os.path.realpath(root)) or is_common_ground(root, home))


def _workspaces(folder: Path) -> Iterator[Path]:
    """The folders above that hold the root of a uv workspace, the nearest first."""
    for candidate in folder.parents:
        if _workspace_table(candidate) is not None:
            yield candidate


def _workspace_table(folder: Path) -> dict[str, object] | None:
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if "workspace" not in text:
        return None
    import tomllib  # few projects have a workspace

    try:
        table = tomllib.loads(text)["tool"]["uv"]["workspace"]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def _has_member(root: Path, folder: Path) -> bool:
    """Whether `folder` is a member of the workspace, or lies in one."""
    table = _workspace_table(root) or {}
    members = _matches(root, table.get("members")) - _matches(root, table.get("exclude"))
    return any(candidate in members for candidate in (folder, *folder.parents))


def _matches(root: Path, patterns: object) -> set[Path]:
    found: set[Path] = set()
    for pattern in patterns if isinstance(patterns, list) else []:
        try:
            found.update(root.glob(str(pattern).removesuffix("/")))
        except (ValueError, NotImplementedError, OSError):  # an absolute or an empty pattern
            continue
    return found
