"""What this machine remembers of a workspace and of the runs sent there: small files beside the queue.

The files hold no secrets. All of them can be lost: gofer then asks the service again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from gofer.core import files, private_folder
from gofer.model.decode import decode

_KEPT_S = 90 * 86400.0


class RunNote(msgspec.Struct, kw_only=True):
    """The state of one request: the number of its runs, whether all were sent, a refusal, the ended rows."""

    runs: int = 1
    is_sent: bool = False
    rejected: str | None = None
    ended: list[int] = []
    at: float = 0.0


class RunNotes:
    """One file for each request that this machine sent. Any process of the user may call; calls block."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "runs")

    def read(self, request_id: str) -> RunNote | None:
        try:
            with open(self._path(request_id), "rb") as file:
                return decode(file.read(), RunNote)
        except OSError:
            return None

    def update(self, request_id: str, **changes: Any) -> None:
        """Change fields of a request's note; make the note if there is none."""
        with self._locked():
            note = self.read(request_id) or RunNote()
            self._write(request_id, msgspec.structs.replace(note, **changes))

    def _write(self, request_id: str, note: RunNote) -> None:
        note.at = time.time()
        files.write_whole(self._path(request_id), msgspec.json.encode(note), mode=0o600)

    def end(self, request_id: str, rows: list[int | None]) -> bool:
        """Note that these rows have ended; return whether all runs of the request have ended."""
        with self._locked():
            note = self.read(request_id)
            if note is None:
                return False
            # A set, because the same end is observed many times.
            note.ended = sorted({*note.ended, *(0 if row is None else row for row in rows)})
            self._write(request_id, note)
            if len(note.ended) < note.runs:
                return False
            self._prune()
        return True

    def _prune(self) -> None:
        """Remove notes that have not changed for 90 days."""
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                if time.time() - entry.stat().st_mtime > _KEPT_S:
                    os.unlink(entry.path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # A separate lock file: a note is replaced by a rename, so a lock on the note itself would be lost.
        private_folder.make_missing(self._folder)
        with open(f"{self._folder}.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _path(self, request_id: str) -> str:
        return os.path.join(self._folder, f"{request_id}.json")


class KnownResources:
    """What exists already in one workspace, so that gofer does not make it again for every run."""

    def __init__(self, folder: str, workspace: str) -> None:
        # A hash, because an ARM id contains slashes and is too long for a file name.
        name = hashlib.sha256(workspace.lower().encode()).hexdigest()[:16]
        self._path = os.path.join(folder, f"known-{name}.json")
        self._lock = threading.Lock()

    def get(self, kind: str, name: str) -> Any:
        """The remembered value, or None."""
        return self._read().get(kind, {}).get(name)

    def put(self, kind: str, name: str, value: Any) -> None:
        with self._lock:
            found = self._read()
            found.setdefault(kind, {})[name] = value
            private_folder.make_missing(os.path.dirname(self._path))
            files.write_whole(self._path, msgspec.json.encode(found), mode=0o600)

    def forget(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            with open(self._path, "rb") as file:
                return decode(file.read(), dict[str, dict[str, Any]]) or {}
        except OSError:
            return {}
