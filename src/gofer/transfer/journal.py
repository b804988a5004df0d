"""Notes of unfinished uploads on this machine, with which the next run continues them.

Each destination has one note, named by a hash of the destination. A note holds no secret and no content.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from gofer.core import private_folder
from gofer.core.json_text import parse_json

_STALE_S = 14 * 86400.0  # the services drop unfinished uploads earlier


class TransferJournal:
    """The note of one destination, locked by one process at a time. Raises OSError."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file

    def read(self, identity: str) -> str | None:
        """The id of the upload noted for exactly this content; None when there is none."""
        try:
            found = parse_json(os.pread(self._file, 1 << 16, 0))
            upload = found["upload"] if found["identity"] == identity else None
        except (ValueError, KeyError, TypeError):  # empty, incomplete, or written by another version
            return None
        return upload if isinstance(upload, str) else None

    def write(self, identity: str, upload: str) -> None:
        data = json.dumps({"identity": identity, "upload": upload}).encode()
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, data, 0)

    def forget(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def close(self) -> None:
        os.close(self._file)


def claim(folder: Path | None, place: str) -> TransferJournal | None:
    """Lock the note for the destination `place`. None without a folder, or while another process has it."""
    if folder is None:
        return None
    name = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    path = folder / f"{name}.json"
    private_folder.make_missing(folder)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have removed the note between open and lock; a lock on it would mean nothing.
        if os.stat(path).st_ino == os.fstat(file).st_ino:
            return TransferJournal(path, file)
    except (BlockingIOError, FileNotFoundError):  # locked, or just removed by a process that has finished
        pass
    os.close(file)
    return None


def remove_stale_notes(folder: Path | None) -> None:
    """Remove notes of uploads that no service has kept."""
    if folder is None:
        return
    before = time.time() - _STALE_S
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.endswith(".json") and entry.stat().st_mtime < before:
                    os.unlink(entry.path)
