"""Decide which of the files that a command wrote beside its code are kept, and in which order. Pure.

The input are paths and their `lstat` facts, the result is a selection. Junk, environments of packages and
mapped folders are left out silently; secrets and special files are left out and named.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from gofer.core.code import junk
from gofer.core.node_request import NodeRequest
from gofer.core.secrets.secret_files import looks_like_secret
from gofer.node.code.working_copy import Changes, Contents, Stamp
from gofer.node.kept.records import SECRET, SPECIAL

OUTPUTS_FOLDER = "outputs"
DEFAULT_LIMIT_BYTES = 2 * 1024**3
_GROUP_LIMIT_BYTES = 20 * 1024**3
_MOST_BYTES = 50 * 1024**3


class KeepRules(NamedTuple):
    """The settings of a run. `limit` is in bytes; with 0, only outputs are kept. `outputs` are patterns,
    relative to `workdir`, of files that are always kept. `mapped` are the names of mapped folders. All rows
    of a group together keep at most `group_limit` bytes. If a run exceeds `limit` on a node whose disk does
    not outlive the run, the newest files are kept, up to `most` bytes including outputs.
    """

    limit: int
    outputs: Tuple[str, ...]
    mapped: FrozenSet[str]
    workdir: str
    group_limit: int = _GROUP_LIMIT_BYTES
    most: int = _MOST_BYTES

    @classmethod
    def of(cls, request: NodeRequest) -> KeepRules:
        """The rules of a run, from its request."""
        return cls(
            _bytes(request.keep_bytes, DEFAULT_LIMIT_BYTES),
            tuple(request.outputs or ()),
            frozenset(request.folders or ()),
            os.path.normpath(request.workdir or "."),
            _bytes(request.keep_group_bytes, _GROUP_LIMIT_BYTES),
            _bytes(request.keep_most_bytes, _MOST_BYTES),
        )

    def is_output(self, path: str) -> bool:
        """Whether the file is always kept: it is below `./outputs`, or matches a pattern of `outputs:`."""
        name = path if self.workdir == "." else os.path.relpath(path, self.workdir)
        return any(fits(name, pattern) for pattern in (OUTPUTS_FOLDER + "/", *self.outputs))


def _bytes(value: Optional[int], default: int) -> int:
    return default if value is None else int(value)


def size_text(size: int) -> str:
    """A size for people: `999 B`, `1.2 KiB`, `3.4 GiB`."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        del units[0]
    return f"{size} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def fits(path: str, pattern: str) -> bool:
    """Whether a pattern matches the file or a folder above it. A pattern without a slash matches in any
    folder.
    """
    pattern = pattern[2:] if pattern.startswith("./") else pattern
    is_anchored = "/" in pattern
    pattern = pattern.strip("/")
    parts = path.split("/")
    for end in range(len(parts), 0, -1):
        name = "/".join(parts[:end]) if is_anchored else parts[end - 1]
        if fnmatch.fnmatchcase(name, pattern):
            return True
    return False


class Candidate(NamedTuple):
    """A file, link or empty folder that may be kept. `size` counts against the limit."""

    path: str
    size: int
    mtime_ns: int
    is_folder: bool
    is_changed: bool


class KeptSelection(NamedTuple):
    """`outputs` are always kept, `others` within the limit; `left` are not kept, each with the reason."""

    outputs: List[Candidate]
    others: List[Candidate]
    left: List[Tuple[str, str]]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.others)


def choose(rules: KeepRules, now: Contents, changes: Changes) -> KeptSelection:
    """Select the files that may be kept from the changes of a working copy with the contents `now`."""
    folders = _Folders(rules, now)
    found = KeptSelection([], [], [])
    for paths, is_changed in ((changes.new, False), (changes.changed, True)):
        for path in paths:
            above, _, name = path.rpartition("/")
            mode = now[path][4]
            if folders.is_left_out(path if stat.S_ISDIR(mode) else above):
                continue
            if stat.S_ISDIR(mode):
                if not folders.is_empty(path):
                    continue
            elif junk.is_junk_file(name) or path in rules.mapped:
                continue
            elif not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                found.left.append((path, SPECIAL))
                continue
            elif looks_like_secret(path):
                found.left.append((path, SECRET))
                continue
            one = _candidate(path, now[path], is_changed)
            (found.outputs if rules.is_output(path) else found.others).append(one)
    return found


def _candidate(path: str, known: Stamp, is_changed: bool) -> Candidate:
    is_folder = stat.S_ISDIR(known[4])
    size = known[1] if stat.S_ISREG(known[4]) else 0
    return Candidate(path, size, known[2], is_folder, is_changed)


def newest_first(candidates: List[Candidate], most_bytes: int) -> Tuple[List[Candidate], List[Candidate]]:
    """Divide files into those to keep and those to leave, when at most `most_bytes` can be kept: the newest
    that fit.
    """
    kept: List[Candidate] = []
    left: List[Candidate] = []
    room = most_bytes
    for one in sorted(candidates, key=lambda one: one.mtime_ns, reverse=True):
        if one.size <= room:
            room -= one.size
            kept.append(one)
        else:
            left.append(one)
    return kept, left


class _Folders:
    """Facts about the folders of a working copy, cached."""

    def __init__(self, rules: KeepRules, now: Contents) -> None:
        self._rules = rules
        self._now = now
        self._left_out: Dict[str, bool] = {"": False}
        self._filled: Set[str] = set()

    def is_empty(self, path: str) -> bool:
        if not self._filled:  # few runs make folders
            self._filled = {one.rpartition("/")[0] for one in self._now}
        return path not in self._filled

    def is_left_out(self, path: str) -> bool:
        """Whether nothing in the folder is kept."""
        known = self._left_out.get(path)
        if known is None:
            above, _, name = path.rpartition("/")
            known = self._left_out[path] = (
                self.is_left_out(above)
                or junk.is_junk_folder(name)
                or path in self._rules.mapped
                or any(mark in self._now for mark in junk.environment_marks(path))
            )
        return known
