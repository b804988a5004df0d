"""Copy the files that a command writes beside its code while it runs, on nodes that a cluster may take away.

A child process of the agent scans the working copy, first after a few seconds and then every few minutes, and
copies new files to `files/` of the run's folder. The uploader sends them to the store from there. The child
also warns when a command writes more than will be kept.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Callable, Dict, List, NamedTuple, Set

from gofer.core import files, run_layout
from gofer.core.code import trees
from gofer.node.code import working_copy
from gofer.node.code.working_copy import Contents, Stamp
from gofer.node.events import EventLog
from gofer.node.helper_process import HelperProcess
from gofer.node.kept import records, rules
from gofer.node.kept.records import KeptFile
from gofer.node.kept.rules import Candidate, KeepRules, KeptSelection, size_text

# The pause before the first scan. Each further pause is twice as long, up to the longest.
_FIRST_S = 5.0
_LONGEST_S = 300.0
# A warning names this many of the largest files and folders.
_MOST_NAMES = 3
# A file is copied only when it was not changed for this long.
_SETTLED_S = 2.0
# How long the child may take to end after the command.
_END_S = 5.0


class CarriedCopy(NamedTuple):
    """A working copy at `code` with its contents `before` the command, and `top`, the folder `files/`.

    `prefix` is how names of this node begin in `files/`; `listing` is the node's list of files. Files are
    copied only with `carries`. `warn` is called once, when more is written than will be kept. `event_log`
    belongs to the child.
    """

    code: str
    before: Contents
    rules: KeepRules
    top: str
    prefix: str
    listing: str
    carries: bool
    warn: Callable[[str], None]
    event_log: EventLog


class FileCarrier:
    """The child process of one attempt. The agent must have no threads when it creates this object."""

    def __init__(self, copy: CarriedCopy, spared: Set[int]) -> None:
        self._child = HelperProcess(lambda reader: _carry(reader, copy))
        self._spared = spared
        spared.add(self._child.pid)

    def end(self) -> None:
        """Stop copying. A file that is half copied does not appear in `files/`. Blocks for a few seconds at
        most.
        """
        self._child.finish(within_s=_END_S)
        self._spared.discard(self._child.pid)


def _carry(reader: int, copy: CarriedCopy) -> bool:
    rounds, pause_s = Rounds(copy), _FIRST_S
    while not select.select([reader], [], [], pause_s)[0]:
        rounds.carry()
        pause_s = min(2 * pause_s, _LONGEST_S)
    return True


class Rounds:
    """The copies made so far. `carry` blocks while it copies, and can be called again."""

    def __init__(self, copy: CarriedCopy) -> None:
        self._copy = copy
        self._carried: Dict[str, Stamp] = {}
        self._has_warned = False

    def carry(self) -> None:
        """Scan the working copy once, and copy what is new."""
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
                    continue  # the file is gone, or the disk is full
        self._remove_old({one.path for one in wanted}, now)
        files.write_whole(self._copy.listing, records.encode_list(self._listed()))
        if count:
            self._copy.event_log.note("carried", files=count)

    def _remove_old(self, wanted: Set[str], now: Contents) -> None:
        """Remove copies of files that the command has removed. Also remove copies that exceed the limit
        because of newer files, but only after the newer files were copied.
        """
        is_replaced = wanted <= self._carried.keys()
        for path in self._carried.keys() - wanted:
            if is_replaced or path not in now:
                del self._carried[path]
                trees.remove_tree(self._place(path))

    def _copy_one(self, path: str, known: Stamp) -> None:
        """Copy one file. A file that changes during the copy is left for the next scan."""
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
            copied = self._place(path)
            target = os.readlink(copied) if os.path.islink(copied) else None
            name = self._copy.prefix + path
            found.append(records.describe(records.FILES, name, os.lstat(copied), target))
        return found


def _warning(found: KeptSelection, rules: KeepRules) -> str:
    """A warning that names the largest files, says what happens at the end, and which settings keep
    everything.
    """
    sizes: Dict[str, int] = {}
    for one in found.others:
        first, slash, _ = one.path.partition("/")
        sizes[first + slash] = sizes.get(first + slash, 0) + one.size
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:_MOST_NAMES]
    return (
        f"the command wrote {size_text(found.size)} beside the code, and `keep` is {size_text(rules.limit)}: "
        f"at the end, outputs are kept first, then the newest files, up to {size_text(rules.most)} "
        f"(`keep_most`). To keep all of it, submit with `--keep {_rounded_up(found.size)}`, or write "
        f"`outputs: {json.dumps(largest, ensure_ascii=False)}`"
    )


def _rounded_up(size: int) -> str:
    """The size, rounded up, in a form for `--keep`."""
    units = ["KiB", "MiB", "GiB"]
    value = -(-size // 1024)
    while value >= 1024 and len(units) > 1:
        value = -(-value // 1024)
        del units[0]
    return f"{value}{units[0]}"


def carried_paths(listing: str) -> Set[str]:
    """The names below `files/` in a list of files; none when there is no list."""
    try:
        with open(listing, "rb") as file:
            found = records.decode_list(file.read())
            return {one.path for one in found if one.place == records.FILES}
    except OSError:
        return set()


def prefix_of(node: int) -> str:
    return run_layout.node_files_path(node, "")
