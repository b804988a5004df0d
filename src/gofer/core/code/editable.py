"""Find editable installs: packages that a Python environment imports from the project folder.

`pip install -e`, `uv sync` and similar commands leave a `.pth` file that names a folder, or a finder module
that maps package names to folders. Both make a run import the person's own files instead of its working copy.
This module reads them without running anything.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import re
import time
from typing import Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from gofer.core.command.programs import locate

_MOST_BYTES = 1 << 20
# For how long a change to an environment may be overlooked.
_LOOK_AGAIN_S = 2.0
_SITES = (("lib", "site-packages"), ("lib64", "site-packages"), ("lib", "dist-packages"))
_MAPPING = re.compile(r"^MAPPING\b[^=\n]*=\s*(\{.*?\})\s*$", re.MULTILINE | re.DOTALL)
_PYTHONS = ("python", "python3")


class Editables(NamedTuple):
    """`folders` are the folders of the project that an environment imports from, relative to the project.
    `others` are the file names of editable installs of the project that cannot be replaced by a folder on
    PYTHONPATH.
    """

    folders: Tuple[str, ...]
    others: Tuple[str, ...]


NO_EDITABLES = Editables((), ())


def find_editables(
    command: Sequence[str], environment: Mapping[str, str], project: str, more: Sequence[str] = ()
) -> Editables:
    """The editable installs in the environments that a command may use. Reads files, runs nothing.

    The environments are that of the command's program, that of `python` on PATH, the active environment, the
    user's own, and the folders `more`. Absent folders are ignored.
    """
    named = [environment.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    prefixes = (*named, os.path.join(environment.get("HOME", ""), ".local"), *more)
    names, search = (*command[:1], *_PYTHONS), environment.get("PATH", os.defpath)
    return _find(names, search, prefixes, project, int(time.monotonic() / _LOOK_AGAIN_S))


@functools.lru_cache(maxsize=8)
def _find(
    names: Tuple[str, ...], search: str, prefixes: Tuple[str, ...], project: str, _moment: int
) -> Editables:
    """The editable installs in the environments of these programs, and in those at `prefixes`. Cached for a
    short time: the rows of an array ask the same question.
    """
    programs = [locate(one, search) for one in names]
    found = [os.path.dirname(os.path.dirname(os.path.abspath(one))) for one in programs if one]
    found += prefixes
    if "/usr" in found:
        found.append("/usr/local")
    sites: Dict[Tuple[int, int], Tuple[str, int]] = {}
    for prefix in dict.fromkeys(found):
        for site in _sites_of(prefix) if os.path.isabs(prefix) else ():
            with contextlib.suppress(OSError):  # absent
                status = os.stat(site)
                sites.setdefault((status.st_dev, status.st_ino), (site, status.st_mtime_ns))
    return _read_sites(tuple(sites.values()), real_path(project))


def _sites_of(prefix: str) -> Iterator[str]:
    """Where an environment may have its packages."""
    for name, packages in _SITES:
        library = os.path.join(prefix, name)
        try:
            changed_ns = os.stat(library).st_mtime_ns
        except OSError:
            continue
        for version in _list_versions(library, changed_ns):
            yield os.path.join(library, version, packages)


@functools.lru_cache(maxsize=64)
def _list_versions(library: str, _changed_ns: int) -> Tuple[str, ...]:
    """The folders of Python versions. Cached by the modification time: `/usr/lib` has many entries."""
    try:
        return tuple(sorted(name for name in os.listdir(library) if name.startswith("python3")))
    except OSError:
        return ()


@functools.lru_cache(maxsize=32)
def _read_sites(sites: Tuple[Tuple[str, int], ...], project: str) -> Editables:
    """Cached by the folders' modification times, since all ranks and rows ask the same question."""
    folders: List[str] = []
    others: List[str] = []
    for site, _ in sites:
        try:
            names = sorted(os.listdir(site))
        except OSError:
            continue
        for name in names:
            path = os.path.join(site, name)
            if name.endswith(".pth"):
                folders += _read_pth(path, project)
            elif name.endswith(".py") and "editable" in name:
                mapped = _read_finder(path, project)
                folders += mapped or ()
                if mapped is None:
                    others.append(name)
    return Editables(tuple(dict.fromkeys(folders)), tuple(dict.fromkeys(others)))


@functools.lru_cache(maxsize=8)
def real_path(project: str) -> str:
    """The path of a project without links. Cached: all rows have the same project."""
    return os.path.realpath(project)


def below(path: str, project: str) -> str | None:
    """The path relative to the project; None when the path is not in the project."""
    if path == project:
        return "."
    return path[len(project) + 1 :] if path.startswith(project.rstrip("/") + "/") else None


def _read_pth(path: str, project: str) -> List[str]:
    """The folders of the project that a `.pth` file adds to the search path."""
    found = []
    for line in _read(path).splitlines():
        words = line.strip()
        if not words or words.startswith(("#", "import ", "import\t")):
            continue
        inside = below(os.path.realpath(os.path.join(os.path.dirname(path), words)), project)
        if inside is not None:
            found.append(inside)
    return found


def _read_finder(path: str, project: str) -> List[str] | None:
    """The folders that hold the packages of a finder. None when the finder names the project but cannot be
    read.
    """
    text = _read(path)
    if project not in text:
        return []
    match = _MAPPING.search(text)
    try:
        mapping = ast.literal_eval(match.group(1)) if match else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        mapping = None
    if not isinstance(mapping, dict):
        return None
    found = []
    for name, place in mapping.items():
        inside = below(os.path.realpath(str(place)), project)
        if inside is None:
            continue
        parent, last = os.path.split(inside)
        if last.partition(".")[0] != str(name):
            return None  # the folder has another name than the package
        found.append(parent or ".")
    return found


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
