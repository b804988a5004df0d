"""What this machine remembers of clusters that gofer made: where each is, and the operations in progress.

The URL of an operation is written down as soon as Azure has named it. So `gofer cluster show` follows what a
client began that was killed while it waited, from any folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gofer.core import files, private_folder
from gofer.transport.azure.managed_cluster import ClusterName


class PendingOperation(msgspec.Struct, frozen=True):
    """A change that Azure works on. `url` is empty when the answer that names it was lost."""

    what: str
    resource: str
    url: str
    since: float


class ClusterNote(msgspec.Struct, frozen=True):
    """One cluster. `profile` is the Azure login with which it was made, `pool` its pool for work."""

    subscription: str
    group: str
    name: str
    pool: str = ""
    profile: str | None = None
    gpus: int = 0
    operations: tuple[PendingOperation, ...] = ()

    @property
    def cluster(self) -> ClusterName:
        return ClusterName(self.subscription, self.group, self.name)


class ClusterNotes:
    """The notes of one user on one machine. Several processes may write."""

    def __init__(self, queue_home: Path) -> None:
        self._folder = queue_home / "clusters"

    def all(self) -> list[ClusterNote]:
        """Every note that can be read."""
        paths = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        return [note for note in map(_read, paths) if note is not None]

    def find(self, cluster: ClusterName) -> ClusterNote | None:
        return _read(self._path(cluster))

    def keep(self, note: ClusterNote) -> None:
        """Write the note; its pending operations are those of the note that exists."""
        with self._changing():
            known = self.find(note.cluster)
            operations = known.operations if known else ()
            self._write(msgspec.structs.replace(note, operations=operations))

    def begin(self, cluster: ClusterName, operation: PendingOperation) -> None:
        """Remember an operation, in place of one on the same resource."""
        with self._changing():
            note = self.find(cluster) or ClusterNote(*cluster)
            others = tuple(one for one in note.operations if one.resource != operation.resource)
            self._write(msgspec.structs.replace(note, operations=(*others, operation)))

    def end(self, cluster: ClusterName, operation: PendingOperation) -> None:
        """Forget an operation that has ended. Idempotent."""
        with self._changing():
            note = self.find(cluster)
            if note is not None:
                others = tuple(one for one in note.operations if one != operation)
                self._write(msgspec.structs.replace(note, operations=others))

    def forget(self, cluster: ClusterName) -> None:
        """Remove the note of a cluster that is gone. Idempotent."""
        self._path(cluster).unlink(missing_ok=True)

    def _path(self, cluster: ClusterName) -> Path:
        mark = hashlib.sha256(cluster.id.lower().encode()).hexdigest()[:16]
        return self._folder / f"{mark}.json"

    def _write(self, note: ClusterNote) -> None:
        files.write_whole(str(self._path(note.cluster)), msgspec.json.encode(note), mode=0o600, durable=True)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        private_folder.make_missing(self._folder)
        held = files.lock(str(self._folder / "lock"), fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(held)


def _read(path: Path) -> ClusterNote | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ClusterNote)
    except (OSError, msgspec.DecodeError):
        return None
