"""Takes a snapshot: walks the folder, reads what changed, sends what the store lacks, writes the manifest.

The order makes interruptions harmless: contents before the manifest that names them, caches last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gofer.core.code.snapshot_names import compute_id
from gofer.errors import SnapshotError
from gofer.snapshot import statcache
from gofer.snapshot.folder_draft import encode_times
from gofer.snapshot.git import Git
from gofer.snapshot.inventory import RecentSnapshots
from gofer.snapshot.left_out import SnapshotSurvey, find_left_out, list_files
from gofer.snapshot.patterns import escape
from gofer.snapshot.rules import NO_CHOICE, SnapshotChoice, Tracked, top_rules
from gofer.snapshot.statcache import BIGGEST, FolderCache, Record
from gofer.snapshot.summary import Listings, Snapshot
from gofer.snapshot.walk import WalkedFolder, walk

if TYPE_CHECKING:
    from pathlib import Path

    from gofer.core.code.file_times import Stamp
    from gofer.snapshot.stores import ObjectStore
    from gofer.snapshot.walk import OutsideLimit

# Called with (bytes read, bytes to read).
Progress = Callable[[int, int], None]

# Old code may be removed while it is used again, but hardly twice in a row.
_TRIES = 3
# A folder that has this share of its parent's size is named instead of the parent.
_NEARLY_ALL = 0.9


def take_snapshot(
    folder: Path,
    store: ObjectStore,
    *,
    cache_dir: Path,
    choice: SnapshotChoice = NO_CHOICE,
    progress: Progress | None = None,
    limit: OutsideLimit | None = None,
) -> Snapshot:
    """Put the present state of the folder into the store. Blocks; several processes may do so at once.

    For an unchanged folder this is a walk and a few requests to the store. `choice` are the caller's own
    rules. `progress` is called with (bytes read, bytes to read). `limit` is called during the walk, unless
    this machine has sent the whole folder before. Raises SnapshotError when a part of the folder cannot be
    read or the folder is not a code folder, and StoreError from the store.
    """
    began = time.perf_counter()
    root = _check_folder(folder)
    capture = _Capture(root, store, os.fspath(cache_dir), limit)
    try:
        own = choice._replace(private=(*choice.private, *_own_folders(root, store, cache_dir)))
        return capture.run(own, progress or _silent, began)
    finally:
        capture.git.close()


def survey(folder: Path, *, cache_dir: Path, choice: SnapshotChoice = NO_CHOICE) -> SnapshotSurvey:
    """What `take_snapshot` would send and what it would leave out.

    Blocks, writes nothing; SnapshotError as for `take_snapshot`.
    """
    state = _FolderState(_check_folder(folder), os.fspath(cache_dir), None)
    try:
        folders = state.walk(choice)
    finally:
        state.git.close()
    return SnapshotSurvey(tuple(list_files(folders)), find_left_out(state.root, folders, state.tracked.files))


class _FolderState:
    """What is remembered of a folder, and its present state."""

    def __init__(self, root: str, cache_dir: str, limit: OutsideLimit | None) -> None:
        self.root = root
        self.cache = statcache.load(cache_dir, root)
        # Records exist only for folders that this machine has sent before.
        self.limit = limit if not self.cache.records else None
        self.git = Git(os.fsencode(root), self.cache.git, os.environ)
        self.tracked = Tracked.of(())

    def walk(self, choice: SnapshotChoice) -> list[WalkedFolder]:
        """Walk with the tracked files that git reported last time, and once more if git now reports others.

        So the walk and git run at the same time, and a second walk is rare.
        """
        assumed = self.git.assumed_tracked()
        found, rules = self._walk_by(choice, assumed)
        self.tracked = self.git.tracked(rules)
        if self.tracked != assumed:
            found, _ = self._walk_by(choice, self.tracked)
        return found

    def _walk_by(self, choice: SnapshotChoice, tracked: Tracked) -> tuple[list[WalkedFolder], bytes]:
        if self.limit:
            self.limit.begin()
        watch = self.limit.add if self.limit else None
        return walk(self.root, top_rules(choice, self.git.layers, tracked), self.cache.records, watch)


class _Capture(_FolderState):
    """One call of `take_snapshot`: the caches, and what it has found so far."""

    def __init__(self, root: str, store: ObjectStore, cache_dir: str, limit: OutsideLimit | None) -> None:
        self.began_ns = time.time_ns()
        super().__init__(root, cache_dir, limit)
        self.store = store
        self.cache_dir = cache_dir
        self.listings: dict[bytes, bytes] | None = None
        self.recent = RecentSnapshots(store, cache_dir)
        self.sent_files = 0
        self.sent_bytes = 0
        self.changed: tuple[str, ...] = ()
        self.stamps: dict[str, list[Stamp]] = {}

    def run(self, choice: SnapshotChoice, progress: Progress, began: float) -> Snapshot:
        folders = self.walk(choice)
        records = {folder.path: folder.record for folder in folders if folder.unchanged and folder.record}
        snapshot_id = _id_of(records) if len(records) == len(folders) else None
        if snapshot_id is None or not self.recent.contains(snapshot_id):
            self.git.expect_change()
            snapshot_id, records = self._send(folders, progress)
        dirty = self.git.is_dirty(snapshot_id)
        self._remember(records)
        return Snapshot(
            id=snapshot_id,
            files=sum(record.entries for record in records.values()),
            bytes=sum(record.size for record in records.values()),
            sent_files=self.sent_files,
            sent_bytes=self.sent_bytes,
            changed=self.changed,
            biggest=_biggest(records),
            biggest_folders=_biggest_folders({path: record.size for path, record in records.items()}),
            commit=self.git.head.commit,
            branch=self.git.head.branch,
            dirty=dirty,
            skipped=_odd(records),
            elapsed_s=time.perf_counter() - began,
            listings=Listings({path: record.digest for path, record in records.items()}, self._load_listings),
            left_out=lambda: find_left_out(self.root, folders, self.tracked.files),
            encode_times=lambda: encode_times(snapshot_id, folders, records, self.stamps),
        )

    def _send(self, folders: list[WalkedFolder], progress: Progress) -> tuple[str, dict[str, Record]]:
        from gofer.snapshot.sender import PacksRemoved, SnapshotSender  # not needed when nothing has changed

        gone: set[str] = set()
        for _ in range(_TRIES):
            try:
                sending = SnapshotSender(self.root, self.store, self.cache_dir, gone)
                sent = sending.send(folders, self.began_ns, progress)
                break
            except PacksRemoved as error:
                gone.update(error.packs)
        else:
            raise SnapshotError(
                f"code in {self.store.url} is removed again and again while it is being sent",
                hint="end the running `gofer prune --code`",
            )
        self.sent_files, self.sent_bytes, self.changed = sent.files, sent.size, sent.changed
        self.listings, self.stamps = sent.listings, sent.stamps
        self.recent.add(sent.id, sent.packs)
        return sent.id, sent.records

    def _remember(self, records: dict[str, Record]) -> None:
        # Files that changed while they were read say nothing about whether the folder equals the commit.
        memory = self.cache.git if self.changed else self.git.memory()
        if records != self.cache.records or memory != self.cache.git:
            statcache.save(self.cache_dir, self.root, FolderCache(records, memory))

    def _load_listings(self) -> dict[bytes, bytes]:
        if self.listings is None:
            self.listings = statcache.load_listings(self.cache_dir, self.root)
        return self.listings


def _silent(done: int, total: int) -> None:
    return None


def _check_folder(folder: Path) -> str:
    root = os.path.realpath(folder)
    if not os.path.isdir(root):
        raise SnapshotError(f"there is no folder `{folder}`", hint="name the folder that contains your code")
    home = os.path.realpath(os.path.expanduser("~"))
    if root == "/" or home == root or home.startswith(root.rstrip("/") + "/"):
        raise SnapshotError(
            f"`{root}` is not a code folder: it contains your whole home folder",
            hint="change to the folder that contains your code, or make one: `mkdir project && cd project`",
        )
    return root


def _own_folders(root: str, store: ObjectStore, cache_dir: Path) -> list[str]:
    """Patterns for gofer's own folders, in case they are inside the code folder."""
    path: Callable[[str], Path] | None = getattr(store, "path", None)
    places = [os.fspath(cache_dir)] + ([os.fspath(path("packs").parent)] if path else [])
    inside = []
    for place in places:
        real = os.path.realpath(place)
        if real.startswith(root + "/"):
            inside.append(os.fsdecode(escape(os.fsencode(real[len(root) + 1 :]))) + "/")
    return inside


def _id_of(records: dict[str, Record]) -> str:
    return compute_id((os.fsencode(path), record.digest) for path, record in records.items())


def _biggest(records: dict[str, Record]) -> tuple[tuple[str, int], ...]:
    """The largest files. They are in the folders with the largest files, so few folders are searched."""
    tops = [(record.biggest[0], path) for path, record in records.items() if record.biggest]
    tops.sort(reverse=True)
    found = [
        (-size, os.path.join(path, name))
        for _, path in tops[:BIGGEST]
        for size, name in records[path].biggest
    ]
    return tuple((path, -size) for size, path in sorted(found)[:BIGGEST])


def _biggest_folders(sizes: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """The largest folders at the top, each with the size of all below it. If one subfolder holds nearly
    everything, the subfolder is named in place of the folder.
    """
    totals: dict[str, int] = {}
    inside: dict[str, list[str]] = {}
    for path, size in sizes.items():
        above = ""
        for name in path.split("/") if path else ():
            folder = f"{above}/{name}" if above else name
            if folder not in totals:
                totals[folder] = 0
                inside.setdefault(above, []).append(folder)
            totals[folder] += size
            above = folder
    found = []
    for folder in sorted(inside.get("", ()), key=lambda one: (-totals[one], one))[:BIGGEST]:
        total, narrow = totals[folder], folder
        while parts := [one for one in inside.get(narrow, ()) if totals[one] >= _NEARLY_ALL * total]:
            narrow = parts[0]
        found.append((narrow, totals[narrow]))
    return tuple(found)


def _odd(records: dict[str, Record]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (os.path.join(path, name), kind) for path, record in records.items() for name, kind in record.odd
    )
