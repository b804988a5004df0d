"""Read a requirements.txt with all files that it includes, as one list.

The project itself (`-e .`, `.[extra]`, `./part`) is removed from the list, since a run imports it from its
own working copy. Its declared dependencies replace it, including those of the extras that are named.
"""

from __future__ import annotations

import os
import re
from typing import List, NamedTuple, Optional, Sequence, Set, Tuple

from gofer.node.packages import pyproject

_OPTION = re.compile(r"^(--?[A-Za-z][A-Za-z-]*)(?:\s*=\s*|\s+|(?<=^-[a-z]))(.+)$")
_INCLUDES = ("-r", "--requirement")
_CONSTRAINTS = ("-c", "--constraint")
_EDITABLES = ("-e", "--editable")
_FOLDERS = ("-f", "--find-links")
_COMMENT = re.compile(r"(^|\s)#.*$")
_EXTRAS = re.compile(r"\[([^\]]*)\]$")
_OWN_EXTRAS = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*\[([^\]]*)\]\s*$")


class RequirementList(NamedTuple):
    """The combined list. `lines` and `constraints` are in the form of pip, with absolute paths. `files` are
    local archives that lines name. `projects` are folders that are imported without an installation.
    """

    lines: List[str]
    constraints: List[str]
    files: List[str]
    projects: List[str]


class UnreadableRequirements(Exception):
    """A file that a requirements.txt includes cannot be read. The text is for the person."""


def read(path: str) -> RequirementList:
    """The list of the file at `path`; UnreadableRequirements when the file or an included file cannot be
    read.
    """
    reader = _Reader()
    reader.file(path, constraint=False)
    return reader.required


def of_project(folder: str) -> RequirementList:
    """The list of a project with a pyproject.toml: its declared dependencies, and itself as a project."""
    reader = _Reader()
    reader.project(folder)
    return reader.required


class _Reader:
    def __init__(self) -> None:
        self.required = RequirementList([], [], [], [])
        self._seen: Set[str] = set()
        self._extras: Set[Tuple[str, str]] = set()

    def file(self, path: str, *, constraint: bool) -> None:
        path = os.path.abspath(path)
        if path in self._seen:
            return
        self._seen.add(path)
        try:
            with open(path, encoding="utf-8-sig") as file:
                text = file.read()
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or str(error)
            raise UnreadableRequirements(f"`{path}`: {words}") from error
        for line in _logical_lines(text):
            self._line(line, os.path.dirname(path), constraint=constraint)

    def project(self, folder: str, extras: Sequence[str] = ()) -> None:
        folder = os.path.abspath(folder)
        is_new = folder not in self.required.projects
        if is_new:
            self.required.projects.append(folder)
        try:
            with open(os.path.join(folder, "pyproject.toml"), encoding="utf-8") as file:
                found = pyproject.parse(file.read())
        except (OSError, ValueError):
            return  # the project declares no dependencies
        for one in (found.dependencies or []) if is_new else []:
            self._line(one, folder, constraint=False)
        self._add_extras(found, folder, extras)

    def _add_extras(self, project: pyproject.Project, folder: str, extras: Sequence[str]) -> None:
        """Add the lists of these extras, and of extras that they name, as in `all = ["demo[dev]"]`."""
        lists = {_plain(name): lines for name, lines in project.extras.items()}
        for extra in map(_plain, extras):
            if (folder, extra) in self._extras:
                continue
            self._extras.add((folder, extra))
            for line in lists.get(extra, []):
                own = _OWN_EXTRAS.match(line)
                if own and _plain(own.group(1)) == _plain(project.name or ""):
                    self._add_extras(project, folder, own.group(2).split(","))
                else:
                    self._line(line, folder, constraint=False)

    def _line(self, line: str, folder: str, *, constraint: bool) -> None:
        option = _OPTION.match(line) if line.startswith("-") else None
        name, value = (option.group(1), option.group(2).strip("\"'")) if option else ("", "")
        into = self.required.constraints if constraint else self.required.lines
        if name in _INCLUDES or name in _CONSTRAINTS:
            self.file(os.path.join(folder, value), constraint=constraint or name in _CONSTRAINTS)
        elif name in _FOLDERS and os.path.isdir(os.path.join(folder, value)):
            into.append(f"--find-links {os.path.join(folder, value)}")
        elif self._is_local(value if name in _EDITABLES else line, folder):
            self._local(value if name in _EDITABLES else line, folder, into)
        else:
            into.append(line)

    def _is_local(self, text: str, folder: str) -> bool:
        return _local_path(text, folder) is not None

    def _local(self, text: str, folder: str, into: List[str]) -> None:
        path = _local_path(text, folder) or ""
        if os.path.isdir(path):
            extras = _EXTRAS.search(text.split(";")[0].strip())
            self.project(path, extras.group(1).split(",") if extras else ())
        else:
            self.required.files.append(path)
            into.append(path)


def _plain(name: str) -> str:
    """The normal form of a package name, which may be written in several ways."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _local_path(text: str, folder: str) -> Optional[str]:
    """The local file or folder that a line names; None for any other requirement."""
    word = _EXTRAS.sub("", text.split(";")[0].strip())
    word = word[len("file:") :] if word.startswith(("file:.", "file:/")) else word
    if word.startswith("//"):
        word = word[2:]
    looks_local = word in (".", "..") or "/" in word or word.endswith((".whl", ".tar.gz", ".zip"))
    path = os.path.normpath(os.path.join(folder, word))
    return path if looks_local and "://" not in word and os.path.exists(path) else None


def _logical_lines(text: str) -> List[str]:
    """The lines without comments and empty lines. Lines that end with a backslash are joined with the
    next.
    """
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = (_COMMENT.sub("", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]
