"""Takes a snapshot: walk, read what changed, send what the store lacks, write the manifest.

The order makes every interruption harmless: contents before the manifest that names them, caches last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from gofer.agent.naming import compute_id
from gofer.errors import SnapshotError
from gofer.snapshot import statcache
from gofer.snapshot.git import Git
from gofer.snapshot.patterns import escape
from gofer.snapshot.recent import Recent
from gofer.snapshot.rules import top_rules
from gofer.snapshot.statcache import BIGGEST, FolderCache, Record
from gofer.snapshot.summary import Listings, Snapshot
from gofer.snapshot.walk import Folder, walk

if TYPE_CHECKING:
    from pathlib import Path

    from gofer.snapshot.stores import ObjectStore

# Called with (bytes read, bytes to read).
Progress = Callable[[int, int], None]

# Old code may be removed while it is taken up again; hardly twice in a row.
_TRIES = 3


def take(
    folder: Path,
    store: ObjectStore,
    *,
    cache_dir: Path,
    ignore: Sequence[str] = (),
    progress: Progress | None = None,
) -> Snapshot:
    """Put the folder as it is now into the store. Blocks; several at once on a folder or a store are safe.

    Unchanged, it is a walk and a few questions to the store. `ignore` are more patterns as in `.goferignore`,
    with the last word. `progress` is called with (bytes read, bytes to read). SnapshotError when something
    that belongs to the folder cannot be read or the folder is no code folder; StoreError from the store.
    """
    began = time.perf_counter()
    root = _check_folder(folder)
    capture = _Capture(root, store, os.fspath(cache_dir))
    try:
        patterns = [*ignore, *_own_folders(root, store, cache_dir)]
        return capture.run(patterns, progress or _silent, began)
    finally:
        capture.git.close()


class _Capture:
    """One call of `take`: what it remembers and what it has found so far."""

    def __init__(self, root: str, store: ObjectStore, cache_dir: str) -> None:
        self.began_ns = time.time_ns()
        self.root = root
        self.store = store
        self.cache_dir = cache_dir
        self.cache = statcache.load(cache_dir, root)
        self.git = Git(os.fsencode(root), self.cache.git, os.environ)
        self.listings: dict[bytes, bytes] | None = None
        self.recent = Recent(store, cache_dir)
        self.sent_files = 0
        self.sent_bytes = 0
        self.changed: tuple[str, ...] = ()

    def run(self, patterns: Sequence[str], progress: Progress, began: float) -> Snapshot:
        folders = self._walk(patterns)
        records = {folder.path: folder.record for folder in folders if folder.unchanged and folder.record}
        snapshot_id = _id_of(records) if len(records) == len(folders) else None
        if snapshot_id is None or not self.recent.is_there(snapshot_id):
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
            commit=self.git.head.commit,
            branch=self.git.head.branch,
            dirty=dirty,
            skipped=_odd(records),
            elapsed_s=time.perf_counter() - began,
            listings=Listings({path: record.digest for path, record in records.items()}, self._load_listings),
        )

    def _walk(self, patterns: Sequence[str]) -> list[Folder]:
        """Walk by what git said last time, and again if it says otherwise now."""
        assumed = self.git.assumed_tracked()
        found, rules = walk(self.root, top_rules(patterns, self.git.layers, assumed), self.cache.records)
        tracked = self.git.tracked(rules)
        if tracked != assumed:
            found, _ = walk(self.root, top_rules(patterns, self.git.layers, tracked), self.cache.records)
        return found

    def _send(self, folders: list[Folder], progress: Progress) -> tuple[str, dict[str, Record]]:
        from gofer.snapshot.sending import PacksGone, Sending  # not needed when nothing has changed

        for _ in range(_TRIES):
            with suppress(PacksGone):
                sent = Sending(self.root, self.store, self.cache_dir).send(folders, self.began_ns, progress)
                break
        else:
            raise SnapshotError(
                f"code in {self.store.url} is removed again and again while it is sent",
                hint="end the `gofer prune --code` that does it",
            )
        self.sent_files, self.sent_bytes, self.changed = sent.files, sent.size, sent.changed
        self.listings = sent.listings
        self.recent.add(sent.id, sent.packs)
        return sent.id, sent.records

    def _remember(self, records: dict[str, Record]) -> None:
        # What was read while it changed says nothing about the commit.
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
        raise SnapshotError(f"there is no folder `{folder}`", hint="give the folder that holds your code")
    home = os.path.realpath(os.path.expanduser("~"))
    if root == "/" or home == root or home.startswith(root.rstrip("/") + "/"):
        raise SnapshotError(
            f"`{root}` is not a code folder: it holds your whole home folder",
            hint="change to the folder that holds your code, or make one: `mkdir project && cd project`",
        )
    return root


def _own_folders(root: str, store: ObjectStore, cache_dir: Path) -> list[str]:
    """Patterns for gofer's own folders, should they lie within the code."""
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
    """The biggest files lie in the folders with the biggest, so only a few folders count."""
    tops = [(record.biggest[0], path) for path, record in records.items() if record.biggest]
    tops.sort(reverse=True)
    found = [
        (-size, os.path.join(path, name))
        for _, path in tops[:BIGGEST]
        for size, name in records[path].biggest
    ]
    return tuple((path, -size) for size, path in sorted(found)[:BIGGEST])


def _odd(records: dict[str, Record]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (os.path.join(path, name), kind) for path, record in records.items() for name, kind in record.odd
    )
