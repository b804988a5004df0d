"""Count the files of a run that can be fetched: outputs, files beside the code, and what stayed on a node.

This reads the run's folder and calls no cluster. Counting stops early when there are very many files.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gofer.core import run_layout as names
from gofer.errors import StoreError
from gofer.node.kept.records import FILES, OUTPUTS, SECRET, SPECIAL, TOO_MUCH, KeptFiles, decode_kept
from gofer.storage.base import OnDisk
from gofer.text import format_local_time, format_size

if TYPE_CHECKING:
    from gofer.ops.runs.run_folder import RunFolder
    from gofer.storage.base import ObjectInfo, Store
    from gofer.tracking.ledger import RunRow

_MOST_COUNTED = 20_000
_LONGEST_S = 1.0
_MOST_NAMES = 4


class LeftFiles(NamedTuple):
    """The files in one place, and the first names; names of folders end with a slash.

    Without `is_all`, there are more files than were counted. `newest` is when the last file reached the
    store.
    """

    files: int = 0
    bytes: int = 0
    names: tuple[str, ...] = ()
    is_all: bool = True
    newest: float | None = None

    def __str__(self) -> str:
        """`3 files, 1.2 MiB: model.pt, ck/…`; empty for no files."""
        if not self.files:
            return ""
        more = "" if self.is_all else "more than "
        shown = [f"{name}…" if name.endswith("/") else name for name in self.names[:_MOST_NAMES]]
        tail = ", …" if len(self.names) > _MOST_NAMES else ""
        return f"{more}{_count(self.files)}, {format_size(self.bytes)}: {', '.join(shown)}{tail}"


class NodeCopy(NamedTuple):
    """A working copy that stayed on a node because its files exceed the limit.

    `attempt` is the last attempt of the run; its list of files says what to fetch from the copy.
    `has_failed`: files could not be kept for another reason, such as a full disk.
    """

    node: int
    path: str
    attempt: int
    has_failed: bool = False

    @property
    def what(self) -> str:
        """What the copy holds, as a phrase."""
        return "what could not be kept" if self.has_failed else "more than `keep` allows"


class CameHome(NamedTuple):
    """The files that a run left. `left_out` are the first of `left_count` paths that were not kept, with the
    reason.

    `last_durable` says up to which time the store has the command's files, if it does not have all.
    """

    outputs: LeftFiles = LeftFiles()
    files: LeftFiles = LeftFiles()
    left_out: tuple[tuple[str, str], ...] = ()
    left_count: int = 0
    copies: tuple[NodeCopy, ...] = ()
    last_durable: str = ""

    def short(self, name: str) -> str:
        """A clause about the files, to print at the end of the run `name`; empty when there are none."""
        words = []
        if self.outputs.files or self.files.files:
            files = self.outputs.files + self.files.files
            size = format_size(self.outputs.bytes + self.files.bytes)
            more = "" if self.outputs.is_all and self.files.is_all else "more than "
            words.append(f"{more}{_count(files)}, {size}: `gofer extract {name} DIR`")
        fetches = "" if words else f": `gofer extract {name} DIR`"
        words += [f"{one.what} stays on node {one.node} in {one.path}" for one in self.copies]
        if self.copies:
            words[-1] += fetches
        return "; ".join([*words, *self._losses()])

    def _losses(self) -> list[str]:
        """Sentences about files that were not kept."""
        lost = [path for path, why in self.left_out if why == TOO_MUCH]
        names = ", ".join(lost[:_MOST_NAMES]) + (", …" if len(lost) > _MOST_NAMES else "")
        words = [f"not kept, as it is more than `keep` allows: {names}"] if lost else []
        if not self.copies:
            failed = [f"{path} ({why})" for path, why in self.left_out if _is_failure(why)]
            more = ", …" if len(failed) > _MOST_NAMES else ""
            words += [f"could not be kept: {', '.join(failed[:_MOST_NAMES])}{more}"] if failed else []
        return [*words, *([self.last_durable] if self.last_durable else [])]


def came_home(folder: RunFolder, row: RunRow) -> CameHome:
    """The files that the run left so far. A place that cannot be read counts as empty; a group has no
    files.
    """
    if row.kind == "group":
        return CameHome()
    outputs, files = _count_below(folder, OUTPUTS), _count_below(folder, FILES)
    kept = _kept(folder, row)
    return CameHome(
        outputs,
        files,
        tuple(one for found in kept.values() for one in found.left),
        sum(found.left_count for found in kept.values()),
        _copies(folder, row, kept),
        _durable_words(row, outputs, files) if _is_partial(folder, row, kept) else "",
    )


def last_durable(folder: RunFolder, row: RunRow) -> str:
    """A sentence that says up to which time the store has the command's files; empty when it has all of
    them.
    """
    if row.kind == "group" or not _is_partial(folder, row, _kept(folder, row)):
        return ""
    return _durable_words(row, *(_count_below(folder, place) for place in (OUTPUTS, FILES)))


def _is_partial(folder: RunFolder, row: RunRow, kept: dict[int, KeptFiles]) -> bool:
    """Whether the store may lack files: the nodes still write, or were gone before they recorded what they
    kept.

    A store that is a folder always has everything that was written.
    """
    if folder.is_folder or row.started_at is None:
        return False
    return not row.is_final or any(node not in kept for node in range(row.nodes))


def _durable_words(row: RunRow, *found: LeftFiles) -> str:
    times = [one.newest for one in found if one.newest is not None]
    if not times:
        return "nothing that the command wrote reached the store" if row.is_final else ""
    words = f"the store has what the command wrote as of {format_local_time(max(times))}"
    return f"{words}; what it wrote later is lost" if row.is_final else words


def copies_of(folder: RunFolder, row: RunRow) -> tuple[NodeCopy, ...]:
    """The working copies that stayed on nodes after the last attempt of a run."""
    return _copies(folder, row, _kept(folder, row))


def _copies(folder: RunFolder, row: RunRow, kept: dict[int, KeptFiles]) -> tuple[NodeCopy, ...]:
    stayed = {node: found.copy for node, found in kept.items() if found.copy is not None}
    attempt = folder.last_attempt(row) if stayed else 0
    failed = {node for node in stayed if any(_is_failure(why) for _, why in kept[node].left)}
    return tuple(NodeCopy(node, path, attempt, node in failed) for node, path in stayed.items())


def _is_failure(why: str) -> bool:
    """Whether a file should have been kept, but an error of the system prevented it."""
    return why not in (SECRET, SPECIAL, TOO_MUCH)


def _kept(folder: RunFolder, row: RunRow) -> dict[int, KeptFiles]:
    """What each node of the last attempt recorded about kept files."""
    attempt = folder.last_attempt(row)
    records = folder.exit_records(attempt) if attempt else {}
    found = {node: decode_kept({"kept": one.kept}) for node, one in records.items() if one is not None}
    return {node: kept for node, kept in found.items() if kept is not None}


def _count_below(folder: RunFolder, place: str) -> LeftFiles:
    prefix = f"{names.run_key(folder.run_id)}/{place}"
    files = size = 0
    newest: float | None = None
    shown: dict[str, None] = {}
    deadline = time.monotonic() + _LONGEST_S
    own_size = _own_sizes(folder.store, prefix)
    try:
        for info in folder.list_place(place):
            if files == _MOST_COUNTED or time.monotonic() > deadline:
                return LeftFiles(files, size, tuple(shown), is_all=False, newest=newest)
            files, size = files + 1, size + own_size(info)
            newest = max(newest or 0.0, float(info.modified))
            first, slash, _ = info.key[len(prefix) + 1 :].partition("/")
            if len(shown) <= _MOST_NAMES:
                shown[first + slash] = None
    except (OSError, StoreError):
        return LeftFiles(files, size, tuple(shown), is_all=False, newest=newest)
    return LeftFiles(files, size, tuple(shown), newest=newest)


def _own_sizes(store: Store, prefix: str) -> Callable[[ObjectInfo], int]:
    """A function that gives the size of an object itself; a link counts as empty."""
    if not isinstance(store, OnDisk):
        return lambda info: info.size
    top = str(store.path(prefix))

    def own_size(info: ObjectInfo) -> int:
        status = os.lstat(top + info.key[len(prefix) :])
        return 0 if stat.S_ISLNK(status.st_mode) else status.st_size

    return own_size


def _count(files: int) -> str:
    return "1 file" if files == 1 else f"{files:,} files"
