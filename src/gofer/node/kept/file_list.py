"""Describe the files of a folder, such as `outputs/` of a run, for the node's list of files."""

from __future__ import annotations

import os
import stat
from typing import Collection, List

from gofer.node import working_copy
from gofer.node.kept import records
from gofer.node.kept.records import KeptFile


def list_folder(place: str, top: str) -> List[KeptFile]:
    """The files, links and empty folders below `top`, which is `place` of the run; none when `top` is
    absent.
    """
    try:
        return describe_files(top, working_copy.scan(top), place)
    except OSError:
        return []


def describe_files(top: str, paths: Collection[str], place: str) -> List[KeptFile]:
    """The files, links and empty folders of `paths` as they are below the folder `top`."""
    filled = {path.rpartition("/")[0] for path in paths}
    listed: List[KeptFile] = []
    for path in paths:
        full_path = os.path.join(top, path)
        try:
            status = os.lstat(full_path)
            target = os.readlink(full_path) if stat.S_ISLNK(status.st_mode) else None
        except OSError:
            continue
        is_listed = stat.S_ISREG(status.st_mode) or target is not None
        if is_listed or (stat.S_ISDIR(status.st_mode) and path not in filled):
            listed.append(records.describe(place, path, status, target))
    return listed
