"""Read a project's dependencies and commands from a pyproject.toml, and write metadata for a project that a
run imports from its working copy.

The agent may run on Python 3.8, which has no TOML parser. If no parser is installed, a small reader for
the few forms that these tables use replaces it. Many projects read their own version from
importlib.metadata when they are imported, and find plugins by entry points: hence the metadata.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from gofer.core import files, private_folder

_TABLE = re.compile(r"^\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*([A-Za-z0-9_.-]+|"[^"]*"|'[^']*')\s*=\s*(.*)$""")
_PARSERS = ("tomllib", "tomli", "pip._vendor.tomli")
_NAME_PART = re.compile(r"""\s*("[^"]*"|'[^']*'|[^."']+)\s*(?:\.|$)""")
_SCRIPT_TABLES = (("project", "scripts"), ("project", "gui-scripts"), ("tool", "poetry", "scripts"))
_ENTRY_TABLES = (("project", "entry-points"), ("tool", "poetry", "plugins"))
_UNKNOWN_VERSION = "0"
# gofer sets this for code under git. Tools that derive the version from git use it too.
_GIT_VERSION = "SETUPTOOLS_SCM_PRETEND_VERSION"


class Project(NamedTuple):
    """One project. `dependencies` is None when the file does not list them in the standard form. `scripts`
    are commands by name, each `module:function`; `entry_points` are all such entries by group. `extras` are
    lists of optional dependencies by name. `version` is None when a build tool determines it.
    """

    name: Optional[str]
    version: Optional[str]
    dependencies: Optional[List[str]]
    extras: Dict[str, List[str]]
    scripts: Dict[str, str]
    entry_points: Dict[str, Dict[str, str]]


def parse(text: str) -> Project:
    """The project that the text describes; an empty one when the text is not TOML. Never raises."""
    tables = _load(text)
    project = tables.get("project")
    project = project if isinstance(project, dict) else {}
    dynamic = project.get("dynamic")
    dynamic = dynamic if isinstance(dynamic, list) else []
    listed = project.get("dependencies", [] if project.get("name") else None)
    is_static = isinstance(listed, list) and "dependencies" not in dynamic
    scripts: Dict[str, str] = {}
    for path in _SCRIPT_TABLES:
        scripts.update({name: one for name, one in _texts(_inner(tables, path)).items() if ":" in one})
    dependencies = [str(one) for one in listed or []] if is_static else None
    known = {**_texts(_inner(tables, ("tool", "poetry"))), **_texts(project)}
    entries = {"console_scripts": scripts} if scripts else {}
    for path in _ENTRY_TABLES:
        entries.update({str(name): _texts(one) for name, one in _inner(tables, path).items()})
    version = None if "version" in dynamic else known.get("version")
    return Project(known.get("name"), version, dependencies, _extras(project), scripts, entries)


def _texts(table: object) -> Dict[str, str]:
    """The entries of a table that are strings; none when it is not a table."""
    found = table.items() if isinstance(table, dict) else ()
    return {str(name): value for name, value in found if isinstance(value, str)}


def _extras(project: Dict[str, object]) -> Dict[str, List[str]]:
    lists = _inner(project, ("optional-dependencies",))
    return {
        str(name): [str(one) for one in found] for name, found in lists.items() if isinstance(found, list)
    }


def _inner(tables: Dict[str, object], path: Tuple[str, ...]) -> Dict[str, object]:
    found: object = tables
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _load(text: str) -> Dict[str, object]:
    for name in _PARSERS:
        try:
            parser = importlib.import_module(name)
        except ImportError:
            continue
        try:
            loaded: Dict[str, object] = parser.loads(text)
            return loaded
        except (ValueError, RecursionError):
            return {}
    return read_tables(text)


def read_tables(text: str) -> Dict[str, Any]:
    """A small TOML reader: tables whose values are a string or a list of strings. Other values become
    None.
    """
    tables: Dict[str, Any] = {}
    current = tables
    lines = iter(text.splitlines())
    for line in lines:
        header = _TABLE.match(line)
        if header:
            current = tables
            for part in _NAME_PART.findall(header.group(1)):
                name = part.strip().strip("\"'")
                if not isinstance(current.get(name), dict):
                    current[name] = {}
                current = current[name]
            continue
        found = _KEY.match(line)
        if found:
            value = found.group(2)
            while value.startswith("[") and not _is_closed(value):
                value += "\n" + next(lines, "]")
            current[found.group(1).strip("\"'")] = _value(value)
    return tables


def _is_closed(value: str) -> bool:
    return re.sub(r"""("[^"\n]*"|'[^'\n]*'|#[^\n]*)""", "", value).rstrip().endswith("]")


def _value(text: str) -> object:
    """Parse a value. TOML writes strings, lists of strings and comments as Python does; None for anything
    else.
    """
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, (str, list)) else None


def write_metadata(folder: str, project: Project, environment: Mapping[str, str]) -> Optional[str]:
    """Write a `dist-info` of the project into `folder`, which must then be on PYTHONPATH. Returns `folder`,
    or None for a project without a name.

    Idempotent. OSError when the folder cannot be written.
    """
    name = re.sub(r"[^A-Za-z0-9.]+", "_", project.name or "").strip("_.")
    if not name:
        return None
    version = project.version or environment.get(_GIT_VERSION) or _UNKNOWN_VERSION
    place = os.path.join(folder, f"{name}-{re.sub(r'[^A-Za-z0-9.+!]+', '_', version)}.dist-info")
    private_folder.make_missing(place)
    _write(place, "METADATA", _metadata(project, version))
    _write(place, "entry_points.txt", _entry_points(project.entry_points))
    return folder


def _metadata(project: Project, version: str) -> List[str]:
    required = [f"Requires-Dist: {one}" for one in project.dependencies or []]
    return ["Metadata-Version: 2.1", f"Name: {project.name}", f"Version: {version}", *required]


def _entry_points(groups: Mapping[str, Dict[str, str]]) -> List[str]:
    lines: List[str] = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    return lines


def _write(place: str, name: str, lines: List[str]) -> None:
    text = "".join(f"{' '.join(line.split())}\n" for line in lines)
    files.write_whole(os.path.join(place, name), text.encode("utf-8"))
