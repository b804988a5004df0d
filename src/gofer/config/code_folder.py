"""Which folder's code a command takes along: the project around the folder that the command was typed in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gofer.config.files import is_common_ground

GIT = "git"
UV_WORKSPACE = "uv workspace"
CHOSEN = "chosen"

# The root of the git repository that holds a folder and does not ignore it; None without one.
FindRepository = Callable[[Path], Path | None]


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


def _workspace_table(folder: Path) -> dict[str, Any] | None:
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
