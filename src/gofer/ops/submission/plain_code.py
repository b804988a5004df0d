"""The code of a run as plain files in the store, for people who look at a store with other programs.

`snapshot: {layout: files}` asks for them. Nodes never read them: they read the packs of the snapshot.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.core.code.packs import CHUNK_BYTES, read_blobs
from gofer.core.parallel import parallel_map
from gofer.core.run_layout import plain_code_key
from gofer.ops.messages import Message
from gofer.snapshot.contents import load
from gofer.text import count_files
from gofer.transport.activity import activity

if TYPE_CHECKING:
    from gofer.core.code.manifest import Manifest, ManifestEntry
    from gofer.ops.session import Session
    from gofer.storage.base import Store

_AT_ONCE = 8


def write(session: Session, store: Store, run_id: str, snapshot: str, folder: Path | None) -> None:
    """Write the files of a snapshot to `code/<run>/` of its store. Blocks. Idempotent.

    What `folder` has unchanged is read there, the rest from the snapshot. Links and empty folders, which an
    object store cannot hold, are left out. StoreError when a file cannot be written.
    """
    manifest = load(store, snapshot)
    files = [entry for entry in manifest.entries if entry.kind != "l"]

    def send(entry: ManifestEntry) -> None:
        data = None if folder is None else _unchanged(folder, entry)
        name = f"{plain_code_key(run_id)}/{os.fsdecode(entry.path)}"
        store.put(name, _stored(store, manifest, entry) if data is None else data)

    with activity(f"writing {count_files(len(files))} of code to {store.url}"):
        parallel_map(send, files, at_once=_AT_ONCE)
    session.emit(Message(f"code: {count_files(len(files))} in {store.url}/{plain_code_key(run_id)}/"))


def _unchanged(folder: Path, entry: ManifestEntry) -> bytes | None:
    """The bytes of the file in the folder, if they are those of the snapshot."""
    try:
        fd = os.open(folder / os.fsdecode(entry.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            data = file.read(entry.size + 1)
    except OSError:
        return None
    pieces = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    return data if tuple(hashlib.sha256(piece).hexdigest() for piece in pieces) == entry.blobs else None


def _stored(store: Store, manifest: Manifest, entry: ManifestEntry) -> bytes:
    """The bytes of the file by the snapshot."""
    found = {blob: bytes(data) for blob, data in read_blobs(store.get_range, manifest.places, entry.blobs)}
    return b"".join(found[blob] for blob in entry.blobs)
