"""Show paths of a run's working copy as paths of the person's project."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from gofer.node.code.work_folders import copy_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gofer.model.run import RunRecord
    from gofer.ops.session import Session


def in_project(session: Session, record: RunRecord, lines: Iterable[str]) -> tuple[str, ...]:
    """The lines with paths of the project in place of paths of a working copy, relative to the current folder
    if they are below it.

    Where the project is not on this machine, the paths are from the top of the code.
    """
    if record.code is None:
        return tuple(lines)
    copy, folder = _copy(record.id, record.code.folder), record.code.folder
    here = os.path.relpath(os.path.realpath(session.folder), os.path.realpath(folder))
    if not os.path.isdir(folder) or here == ".":
        return tuple(re.sub(copy, "", line) for line in lines)
    top = os.path.relpath(folder, session.folder)
    outer = f"{folder}/" if top.startswith("..") else f"{top}/"
    below = re.compile(f"{copy}{re.escape(here)}/")
    return tuple(re.sub(copy, lambda _: outer, below.sub("", line)) for line in lines)


def _copy(run_id: str, folder: str) -> str:
    """A regular expression of a working copy with the slash behind it: see gofer.node.code.work_folders.

    The folder of a copy has the id of the run in its name. Only a path in quotes may contain spaces.
    """

    name = re.escape(copy_name({"folder": folder}))
    before = r"(?:(?<=[\"'`])/[^\"'`\n]*?|/[^\s\"'`:]*?)"
    return rf"{before}/{re.escape(run_id)}[-.\d]*/(?:[\w.]+(?:-\d+)?/)?{name}/"
