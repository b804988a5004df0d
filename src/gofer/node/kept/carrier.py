"""Carries what a command writes beside its code while it runs, where its node may be taken back.

A child of the agent looks through the working copy, first after a few seconds and then every few minutes,
and copies what is new to `files/` of the run's folder, which goes to the store from there. It also says when
more is written than will be kept.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Callable, Dict, List, NamedTuple, Set

from gofer.core import files, run_layout, trees
from gofer.node import working_copy
from gofer.node.events import Diary
from gofer.node.helper_process import Child
from gofer.node.kept import records, rules
from gofer.node.kept.records import KeptFile
from gofer.node.kept.rules import Candidate, KeepRules, KeptSelection, size_text
from gofer.node.working_copy import Contents, Stamp

# The pause before the first look; each later one is twice as long, up to the longest.
_FIRST_S = 5.0
_LONGEST_S = 300.0
# Of what is too much, a warning names this many of the largest files and folders.
_MOST_NAMES = 3
# A file must have been left alone for this long.
_SETTLED_S = 2.0
# How long the child may take to end when the command has.
_END_S = 5.0


class CarriedCopy(NamedTuple):
    """A working copy at `code` that held `before`, and `top`, the folder `files/` it is carried to.

    `prefix` is what the names of the node begin with there, `listing` the node's list of files. Nothing is
    carried without `carries`; `warn` gets words once, when more was written than is kept. `diary` is the
    child's own.
    """

    code: str
    before: Contents
    rules: KeepRules
    top: str
    prefix: str
    listing: str
    carries: bool
    warn: Callable[[str], None]
    diary: Diary


class FileCarrier:
    """The child process of one attempt. Made where the agent has no threads."""

    def __init__(self, copy: CarriedCopy, spared: Set[int]) -> None:
        self._child = Child(lambda reader: _carry(reader, copy))
        self._spared = spared
        spared.add(self._child.pid)

    def end(self) -> None:
        """The command is over: what is half copied stays out of `files/`."""
        self._child.finish(within_s=_END_S)
        self._spared.discard(self._child.pid)


def _carry(reader: int, copy: CarriedCopy) -> bool:
    rounds, pause_s = Rounds(copy), _FIRST_S
    while not select.select([reader], [], [], pause_s)[0]:
        rounds.carry()
        pause_s = min(2 * pause_s, _LONGEST_S)
    return True


class Rounds:
    """What was carried so far. `carry` blocks for as long as the copying takes, and can be called again."""

    def __init__(self, copy: CarriedCopy) -> None:
        self._copy = copy
        self._carried: Dict[str, Stamp] = {}
        self._has_warned = False

    def carry(self) -> None:
        """One look through the copy."""
        copy = self._copy
        try:
            now = working_copy.scan(copy.code)
        except OSError:
            return  # the command has removed it
        found = rules.choose(copy.rules, now, working_copy.compare(copy.before, now))
        limit, others = copy.rules.limit, found.others
        if limit and found.size > limit:
            others, _ = rules.newest_first(found.others, limit)
            self._warn(found)
        if copy.carries:
            wanted = [*found.outputs, *(others if limit else [])]
            self._copy_new([one for one in wanted if not one.is_folder], now)

    def _warn(self, found: KeptSelection) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._copy.warn(_warning(found, self._copy.rules))

    def _copy_new(self, wanted: List[Candidate], now: Contents) -> None:
        settled_ns = time.time_ns() - int(_SETTLED_S * 1e9)
        count = 0
        for one in wanted:
            if self._carried.get(one.path) != now[one.path] and one.mtime_ns <= settled_ns:
                try:
                    self._copy_one(one.path, now[one.path])
                    count += 1
                except OSError:
                    continue  # it is gone, or the disk is full
        self._remove_old({one.path for one in wanted}, now)
        files.write_whole(self._copy.listing, records.encode_list(self._listed()))
        if count:
            self._copy.diary.note("carried", files=count)

    def _remove_old(self, wanted: Set[str], now: Contents) -> None:
        """What the command has removed; and what newer files leave no room for, once those are carried."""
        is_replaced = wanted <= self._carried.keys()
        for path in self._carried.keys() - wanted:
            if is_replaced or path not in now:
                del self._carried[path]
                trees.remove_tree(self._place(path))

    def _copy_one(self, path: str, known: Stamp) -> None:
        """A file that is written to meanwhile is left for the next look."""
        source, part = os.path.join(self._copy.code, path), f"{self._copy.top}.{os.getpid()}.tmp"
        trees.remove_tree(part)
        os.makedirs(os.path.dirname(self._place(path)), exist_ok=True)
        trees.copy_file(source, part)
        if working_copy.stamp(os.lstat(source)) == known:
            trees.move(part, self._place(path))
            self._carried[path] = known
        trees.remove_tree(part)

    def _place(self, path: str) -> str:
        return os.path.join(self._copy.top, self._copy.prefix + path)

    def _listed(self) -> List[KeptFile]:
        found: List[KeptFile] = []
        for path in self._carried:
            whole = self._place(path)
            target = os.readlink(whole) if os.path.islink(whole) else None
            name = self._copy.prefix + path
            found.append(records.describe(records.FILES, name, os.lstat(whole), target))
        return found


def _warning(found: KeptSelection, rules: KeepRules) -> str:
    """What is too much, what becomes of it at the end, and the settings that keep all of it."""
    sizes: Dict[str, int] = {}
    for one in found.others:
        first, slash, _ = one.path.partition("/")
        sizes[first + slash] = sizes.get(first + slash, 0) + one.size
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:_MOST_NAMES]
    return (
        f"{size_text(found.size)} are written beside the code, and `keep` is {size_text(rules.limit)}: "
        f"at the end outputs are kept first and then the newest files, up to {size_text(rules.most)} "
        f"(`keep_most`). To keep all of it, submit with `--keep {_rounded_up(found.size)}`, or write "
        f"`outputs: {json.dumps(largest, ensure_ascii=False)}`"
    )


def _rounded_up(size: int) -> str:
    """A size for `--keep` that is not smaller."""
    units = ["KiB", "MiB", "GiB"]
    value = -(-size // 1024)
    while value >= 1024 and len(units) > 1:
        value = -(-value // 1024)
        del units[0]
    return f"{value}{units[0]}"


def carried_paths(listing: str) -> Set[str]:
    """The names below `files/` in a list of files; none where there is no list."""
    try:
        with open(listing, "rb") as file:
            found = records.decode_list(file.read())
            return {one.path for one in found if one.place == records.FILES}
    except OSError:
        return set()


def prefix_of(node: int) -> str:
    return run_layout.node_files_path(node, "")
