"""The steps of the data commands. Each step first compares, then copies.

`compare` compares and changes nothing; `go` does what `compare` found. A dry run calls `compare` only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gofer.errors import KeyNotFound
from gofer.ops.data.contents import missing
from gofer.transfer import LocalEnd, Notes, StoreEnd, plan, run
from gofer.transfer.packs.fill import LocalFile
from gofer.transfer.packs.index import FOLDER, Packed
from gofer.transfer.packs.store import PackView
from gofer.transfer.packs.view import generation_of, index_key, join, packs_key
from gofer.transfer.packs.write import Prepared, forget, pack, prepare
from gofer.transfer.walk import FileSelection

if TYPE_CHECKING:
    from gofer.ops.data.places import StorePath
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.transfer import End, TransferOptions, TransferPlan, TransferProgress, TransferResult


_OWN = FOLDER.encode()
# Each pack is in memory while it is sent.
_PACKS_AT_ONCE = 4


class Work(NamedTuple):
    """What a step has to do."""

    files: int
    bytes: int
    skipped: int
    deletes: int
    delete_bytes: int


class StepsResult(NamedTuple):
    """What steps did. Each entry of `failed`, `changed` and `odd` is (path, reason). The counts are complete;
    the lists may have only the first thousand entries.
    """

    files: int = 0
    bytes: int = 0
    skipped: int = 0
    deleted: int = 0
    kept: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    changed: tuple[tuple[str, str], ...] = ()
    odd: tuple[tuple[str, str], ...] = ()
    failures: int = 0
    elapsed_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything was copied."""
        return self.failures == 0

    def joined(self, other: StepsResult) -> StepsResult:
        """The sum of both."""
        return StepsResult(
            self.files + other.files,
            self.bytes + other.bytes,
            self.skipped + other.skipped,
            self.deleted + other.deleted,
            self.kept + other.kept,
            self.failed + other.failed,
            self.changed + other.changed,
            self.odd + other.odd,
            self.failures + other.failures,
            self.elapsed_s + other.elapsed_s,
        )


class Step(Protocol):
    """The copy of one folder or file."""

    def compare(self, progress: TransferProgress) -> Work:
        """Compare source and destination. Blocks. KeyNotFound or UsageError when the source does not
        exist.
        """

    def preview(self) -> Iterator[tuple[str, str, int]]:
        """After `compare`: tuples of (`send` or `delete`, path as the person wrote it, bytes)."""

    def go(self, progress: TransferProgress, state: Path) -> StepsResult:
        """Copy and delete what `compare` found. Blocks. The folder `state` holds notes with which a killed
        transfer can continue.
        """


class Transfer:
    """Copies files between a folder and a store, or between two stores. Paths for people begin with `name`.
    When the source does not exist, similar names are searched at `origin`.
    """

    def __init__(
        self,
        source: End,
        destination: End,
        options: TransferOptions,
        name: str,
        origin: StorePath | None = None,
    ) -> None:
        self._source = source
        self._destination = destination
        self._options = options
        self._name = name
        self._origin = origin
        self._plan: TransferPlan | None = None

    @property
    def plan(self) -> TransferPlan:
        assert self._plan is not None, "look first"
        return self._plan

    def compare(self, progress: TransferProgress) -> Work:
        try:
            found = self._plan = plan(self._source, self._destination, self._options, progress)
        except KeyNotFound:
            if self._origin is None:
                raise
            raise missing(self._origin) from None
        return Work(found.files, found.bytes, found.skipped, found.deletes, found.delete_bytes)

    def preview(self) -> Iterator[tuple[str, str, int]]:
        for entry in self.plan.items():
            yield "send", join(self._name, entry.path), entry.size
        for entry in self.plan.deletions():
            yield "delete", join(self._name, entry.path), entry.size

    def go(self, progress: TransferProgress, state: Path) -> StepsResult:
        try:
            return self._outcome(run(self.plan, progress=progress, state=state))
        finally:
            if isinstance(self._source, StoreEnd) and isinstance(self._source.store, PackView):
                self._source.store.close()

    def _outcome(self, result: TransferResult) -> StepsResult:
        return StepsResult(
            result.files,
            result.bytes,
            result.skipped,
            result.deleted,
            result.kept,
            self._named(result.failed),
            self._named(result.changed),
            self._named(result.odd),
            len(result.failed) + len(result.changed) + len(result.odd),
            result.elapsed_s,
        )

    def _named(self, notes: Notes) -> tuple[tuple[str, str], ...]:
        return tuple((join(self._name, note.path), note.why) for note in notes)


class Packing:
    """Stores a local folder as packs, or adds a file or folder to a packed folder.

    `root` is the packed folder, and `inside` the path in it for the local file or folder.
    """

    def __init__(
        self, local: Path, store: Store, root: str, inside: str, options: TransferOptions, name: str
    ) -> None:
        self._local = local
        self._store = store
        self._root = root
        self._inside = inside
        self._options = options
        self._name = name
        self._odd = Notes()
        self._prepared: Prepared | None = None

    @property
    def prepared(self) -> Prepared:
        assert self._prepared is not None, "look first"
        return self._prepared

    def compare(self, progress: TransferProgress) -> Work:
        files = list(self._scan())
        progress.add_compared(len(files))
        self._prepared = prepare(self._store, self._root, files, checksum=self._options.checksum)
        sent, gone = self.prepared.drawn.send, self._gone()
        size = sum(file.size for file in gone)
        return Work(
            len(sent), sum(file.size for file in sent), self.prepared.drawn.unchanged, len(gone), size
        )

    def preview(self) -> Iterator[tuple[str, str, int]]:
        for file in self.prepared.drawn.send:
            yield "send", self._shown(file.name), file.size
        for entry in self._gone():
            yield "delete", self._shown(entry.name), entry.size

    def go(self, progress: TransferProgress, state: Path) -> StepsResult:
        begun = time.monotonic()
        sent = self.prepared.drawn.send
        progress.begin("moving", files=len(sent), size=sum(file.size for file in sent))
        done = pack(
            self._store,
            self._root,
            self.prepared,
            jobs=min(self._options.jobs or _PACKS_AT_ONCE, _PACKS_AT_ONCE),
            progress=lambda files, size: progress.add(files=files, size=size),
        )
        failed = tuple((self._shown_path(path), why) for path, why in done.failed)
        changed = tuple((self._shown_path(path), "changed while it was read") for path in done.changed)
        odd = tuple((join(self._name, note.path), note.why) for note in self._odd)
        failures = len(failed) + len(changed) + len(self._odd)
        gone = self._gone()
        if gone and not failures:
            forget(self._store, self._root, {entry.name for entry in gone})
        deleted, kept = (0, len(gone)) if failures else (len(gone), 0)
        elapsed_s = time.monotonic() - begun
        return StepsResult(
            done.files, done.bytes, done.skipped, deleted, kept, failed, changed, odd, failures, elapsed_s
        )

    def _scan(self) -> Iterator[LocalFile]:
        end = LocalEnd(self._local)
        single = end.entry()
        choice = FileSelection(self._options.include, self._options.exclude)
        walk = [single] if single else end.walk(choice, self._odd.add, follow=True).entries()
        for entry in walk:
            name = os.fsencode(join(self._inside, entry.path))
            if _OWN in name.split(b"/"):
                self._odd.add(entry.path, f"has `{FOLDER}` in its path, which is gofer's own")
                continue
            path = os.path.join(self._local, entry.path) if entry.path else str(self._local)
            yield LocalFile(name, path, entry.size, entry.mtime_ns)

    def _gone(self) -> list[Packed]:
        """With `delete`, the files that the packed folder has and the local folder does not have."""
        if not self._options.delete:
            return []
        choice = FileSelection(self._options.include, self._options.exclude)
        here = {file.name for file in self.prepared.files}
        inside = os.fsencode(self._inside)
        skip = len(inside) + 1 if inside else 0
        held = self.prepared.held.contents.under(inside)
        return [entry for entry in held if entry.name not in here and choice.selects(entry.name[skip:])]

    def _shown(self, name: bytes) -> str:
        skip = len(os.fsencode(self._inside)) + 1 if self._inside else 0
        return join(self._name, os.fsdecode(name[skip:]))

    def _shown_path(self, path: str) -> str:
        relative = os.path.relpath(path, self._local)
        return self._name if relative == "." else join(self._name, relative)


def compare(steps: Sequence[Step], progress: TransferProgress) -> Work:
    """Compare all steps; the sum of what they have to do."""
    works = [step.compare(progress) for step in steps]
    return Work(*(sum(numbers) for numbers in zip(*works, strict=True))) if works else Work(0, 0, 0, 0, 0)


def go(session: Session, steps: Sequence[Step], progress: TransferProgress) -> StepsResult:
    """Do all steps, one after another. Blocks."""
    outcome = StepsResult()
    for step in steps:
        outcome = outcome.joined(step.go(progress, session.paths.cache_dir / "transfers"))
    return outcome


class PacksCopy:
    """Copies the packed folder `root` of one store to the folder `goal` of another, which must not be
    packed.
    """

    def __init__(
        self, source: Store, root: str, destination: Store, goal: str, options: TransferOptions, name: str
    ) -> None:
        plain = options._replace(include=(), exclude=(), delete=False)
        ends = ((packs_key(root), packs_key(goal)), (index_key(root), index_key(goal)))
        self._packs, self._index = (
            Transfer(StoreEnd(source, one), StoreEnd(destination, other), plain, name) for one, other in ends
        )

    def compare(self, progress: TransferProgress) -> Work:
        packs, index = self._packs.compare(progress), self._index.compare(progress)
        return Work(*(one + other for one, other in zip(packs, index, strict=True)))

    def preview(self) -> Iterator[tuple[str, str, int]]:
        yield from self._packs.preview()
        yield from self._index.preview()

    def go(self, progress: TransferProgress, state: Path) -> StepsResult:
        """Copy. The index is copied only after all packs, so that it never names a missing pack."""
        outcome = self._packs.go(progress, state)
        return outcome.joined(self._index.go(progress, state)) if outcome.ok else outcome


def packed_roots(store: Store, prefix: str) -> list[str]:
    """The packed folders at and below a folder. Lists all objects below it."""
    found = (generation_of(info.key) for info in store.list(prefix))
    return sorted({one[0] for one in found if one})
