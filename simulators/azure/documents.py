"""Documents that survive the simulator: resources by their ARM id, jobs, and what belongs to them."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path

from simulators.azure.messages import Json


class Documents:
    """Documents by kind and key, in memory and in an SQLite file. Any thread. Keys ignore case."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        # A simulator that is killed loses nothing; a machine that loses power may.
        self._file.execute("pragma journal_mode=wal")
        self._file.execute("pragma synchronous=off")
        self._file.execute("create table if not exists documents(kind, key, body, primary key(kind, key))")
        self._kinds: dict[str, dict[str, Json]] = {}
        for kind, key, body in self._file.execute("select kind, key, body from documents order by rowid"):
            self._kinds.setdefault(kind, {})[key] = json.loads(body)

    def get(self, kind: str, key: str) -> Json | None:
        with self._lock:
            return self._kinds.get(kind, {}).get(key.lower())

    def put(self, kind: str, key: str, document: Json) -> None:
        with self._lock:
            self._kinds.setdefault(kind, {})[key.lower()] = document
            words = (kind, key.lower(), json.dumps(document))
            self._file.execute(
                "insert into documents values(?, ?, ?) on conflict do update set body = excluded.body", words
            )

    def delete(self, kind: str, key: str) -> bool:
        with self._lock:
            self._file.execute("delete from documents where kind = ? and key = ?", (kind, key.lower()))
            return self._kinds.get(kind, {}).pop(key.lower(), None) is not None

    def keys(self, kind: str, under: str) -> list[str]:
        """The keys that begin with `under`."""
        with self._lock:
            return [key for key in self._kinds.get(kind, {}) if key.startswith(under.lower())]

    def all(self, kind: str, under: str = "") -> list[Json]:
        """Oldest first; only those whose key begins with `under`."""
        with self._lock:
            found = self._kinds.get(kind, {})
            return [document for key, document in found.items() if key.startswith(under.lower())]
