"""What a run left that can be fetched: its outputs, the files beside its code, and what stayed on a node.

From the run's folder; asks no cluster. Counting stops early where there is very much.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from gofer.core import run_layout as names
from gofer.errors import StoreError
from gofer.node.kept.records import KeptFiles, decode_kept
from gofer.node.kept.rules import SECRET, SPECIAL, TOO_MUCH
from gofer.ops.runs import run_folder
from gofer.storage.base import OnDisk
from gofer.text import format_local_time, format_size

if TYPE_CHECKING:
    from gofer.storage.base import ObjectInfo, Store
    from gofer.tracking.ledger import RunRow

_MOST_COUNTED = 20_000
_LONGEST_S = 1.0
_MOST_NAMES = 4
_FOLDERS = ("file:", "ssh:")


class LeftFiles(NamedTuple):
    """Files in one place, and the first names there, those of folders with a slash.

    Without `is_all` there are more than were counted. `newest` is when the last of them came to the store.
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
    """A working copy that stayed on a node, since it holds more than may be kept.

    `attempt` is the last of the run, whose list of files says what is to be fetched from the copy. With
    `has_failed` files could not be kept for another reason, such as a full disk.
    """

    node: int
    path: str
    attempt: int
    has_failed: bool = False

    @property
    def what(self) -> str:
        """What stays there."""
        return "what could not be kept" if self.has_failed else "more than `keep` allows"


class CameHome(NamedTuple):
    """`left_out` are paths that were not kept, each with the reason; they are the first of `left_count`.

    `last_durable` says until when the store has what the command wrote, where that is not all of it.
    """

    outputs: LeftFiles = LeftFiles()
    files: LeftFiles = LeftFiles()
    left_out: tuple[tuple[str, str], ...] = ()
    left_count: int = 0
    copies: tuple[NodeCopy, ...] = ()
    last_durable: str = ""

    def short(self, name: str) -> str:
        """One clause for the end of a run that is called `name`; empty when it left nothing."""
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
        """What the command wrote and was not kept."""
        lost = [path for path, why in self.left_out if why == TOO_MUCH]
        names = ", ".join(lost[:_MOST_NAMES]) + (", …" if len(lost) > _MOST_NAMES else "")
        words = [f"not kept, as it is more than `keep` allows: {names}"] if lost else []
        if not self.copies:
            failed = [f"{path} ({why})" for path, why in self.left_out if _is_failure(why)]
            more = ", …" if len(failed) > _MOST_NAMES else ""
            words += [f"could not be kept: {', '.join(failed[:_MOST_NAMES])}{more}"] if failed else []
        return [*words, *([self.last_durable] if self.last_durable else [])]


def came_home(store: Store, row: RunRow) -> CameHome:
    """What the run left so far. A place that cannot be read counts as empty; a group has nothing."""
    if row.kind == "group":
        return CameHome()
    outputs = _count_below(store, names.outputs_key(row.id))
    files = _count_below(store, names.files_key(row.id))
    kept = _kept(store, row)
    return CameHome(
        outputs,
        files,
        tuple(one for found in kept.values() for one in found.left),
        sum(found.left_count for found in kept.values()),
        _copies(store, row, kept),
        _durable_words(row, outputs, files) if _is_partial(store, row, kept) else "",
    )


def last_durable(store: Store, row: RunRow) -> str:
    """Until when the store has what the command wrote; empty where it has all, or keeps it at once."""
    if row.kind == "group" or not _is_partial(store, row, _kept(store, row)):
        return ""
    places = (names.outputs_key(row.id), names.files_key(row.id))
    return _durable_words(row, *(_count_below(store, key) for key in places))


def _is_partial(store: Store, row: RunRow, kept: dict[int, KeptFiles]) -> bool:
    """Whether the nodes still write, or were gone before they could say what they kept.

    A store that is a folder has what was written, whatever becomes of the node.
    """
    if store.url.startswith(_FOLDERS) or row.started_at is None:
        return False
    return not row.is_final or any(node not in kept for node in range(row.nodes))


def _durable_words(row: RunRow, *found: LeftFiles) -> str:
    times = [one.newest for one in found if one.newest is not None]
    if not times:
        return "nothing that the command wrote reached the store" if row.is_final else ""
    words = f"the store has what the command wrote as of {format_local_time(max(times))}"
    return f"{words}; what it wrote later is lost" if row.is_final else words


def copies_of(store: Store, row: RunRow) -> tuple[NodeCopy, ...]:
    """The working copies that stayed on nodes after the last attempt of a run."""
    return _copies(store, row, _kept(store, row))


def _copies(store: Store, row: RunRow, kept: dict[int, KeptFiles]) -> tuple[NodeCopy, ...]:
    stayed = {node: found.copy for node, found in kept.items() if found.copy is not None}
    attempt = _last_attempt(store, row) if stayed else 0
    failed = {node for node in stayed if any(_is_failure(why) for _, why in kept[node].left)}
    return tuple(NodeCopy(node, path, attempt, node in failed) for node, path in stayed.items())


def _is_failure(why: str) -> bool:
    """Whether a file was to be kept, and the system did not let it be."""
    return why not in (SECRET, SPECIAL, TOO_MUCH)


def _last_attempt(store: Store, row: RunRow) -> int:
    """0 where there was none."""
    numbers = [int(one["number"]) for one in row.attempts] or run_folder.attempt_numbers(store, row.id)
    return numbers[-1] if numbers else 0


def _kept(store: Store, row: RunRow) -> dict[int, KeptFiles]:
    """What the nodes of the last attempt said, by node."""
    attempt = _last_attempt(store, row)
    records = run_folder.exit_records(store, row.id, attempt) if attempt else {}
    found = {node: decode_kept({"kept": one.kept}) for node, one in records.items() if one is not None}
    return {node: kept for node, kept in found.items() if kept is not None}


def _count_below(store: Store, prefix: str) -> LeftFiles:
    files = size = 0
    newest: float | None = None
    shown: dict[str, None] = {}
    deadline = time.monotonic() + _LONGEST_S
    try:
        for info in store.list(prefix):
            if files == _MOST_COUNTED or time.monotonic() > deadline:
                return LeftFiles(files, size, tuple(shown), is_all=False, newest=newest)
            files, size = files + 1, size + _own_size(store, info)
            newest = max(newest or 0.0, float(info.modified))
            first, slash, _ = info.key[len(prefix) + 1 :].partition("/")
            if len(shown) <= _MOST_NAMES:
                shown[first + slash] = None
    except (OSError, StoreError):
        return LeftFiles(files, size, tuple(shown), is_all=False, newest=newest)
    return LeftFiles(files, size, tuple(shown), newest=newest)


def _own_size(store: Store, info: ObjectInfo) -> int:
    """Without the file that a link leads to."""
    if not isinstance(store, OnDisk):
        return info.size
    status = os.lstat(store.path(info.key))
    return 0 if stat.S_ISLNK(status.st_mode) else status.st_size


def _count(files: int) -> str:
    return "1 file" if files == 1 else f"{files:,} files"
