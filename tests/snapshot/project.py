"""A project folder with its store and cache, and functions that describe trees of files."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from gofer.snapshot.capture import take_snapshot
from gofer.snapshot.contents import load, restore
from gofer.snapshot.rules import SnapshotChoice
from gofer.snapshot.summary import Snapshot
from gofer.storage.file import FileStore

# Long enough ago that the cache trusts the time: see gofer.snapshot.statcache.
LONG_AGO_S = 1_600_000_000


class SnapshotProject:
    """A project folder, a store and a cache, all below `root`."""

    def __init__(self, place: Path) -> None:
        self.root = place
        self.folder = place / "project"
        self.cache = place / "cache"
        self.folder.mkdir()
        self.store = FileStore(place / "store", create=True)
        self._restored = 0

    def write(self, files: dict[str, str | bytes], *, old: bool = True) -> None:
        """Write files into the project, by default as if that had been long ago."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            if old:
                os.utime(path, (LONG_AGO_S, LONG_AGO_S))

    def take(self, *ignore: str, folder: Path | None = None) -> Snapshot:
        return take_snapshot(
            folder or self.folder,
            self.store,
            cache_dir=self.cache,
            choice=SnapshotChoice(ignore=tuple(ignore)),
        )

    def restore(self, snapshot_id: str) -> Path:
        """The snapshot in a new folder."""
        self._restored += 1
        folder = self.root / f"restored-{self._restored}"
        restore(self.store, snapshot_id, folder)
        return folder

    def taken(self, *ignore: str, folder: Path | None = None) -> list[str]:
        """The paths of the files and links in a snapshot taken now."""
        manifest = load(self.store, self.take(*ignore, folder=folder).id)
        return sorted(os.fsdecode(entry.path) for entry in manifest.entries)

    def git(self, *words: str, folder: Path | None = None) -> bytes:
        return subprocess.run(
            ["git", *words], cwd=folder or self.folder, check=True, capture_output=True, timeout=60
        ).stdout

    def commit(self) -> str:
        """Make the project a repository with everything in it committed."""
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-qm", "all", "--allow-empty")
        return self.git("rev-parse", "HEAD").decode().strip()


def describe(folder: Path) -> dict[bytes, tuple[str, bytes]]:
    """Everything in a folder: kind and content of each path, links not followed."""
    found: dict[bytes, tuple[str, bytes]] = {}
    root = os.fsencode(folder)
    for above, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = os.path.join(above, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                value = ("link", os.readlink(path))
            elif stat.S_ISDIR(mode):
                value = ("folder", b"")
            else:
                with open(path, "rb") as file:
                    value = ("program" if mode & 0o100 else "file", file.read())
            found[path[len(root) + 1 :]] = value
    return found
