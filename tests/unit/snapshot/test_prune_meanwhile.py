"""Old code that `gofer prune --code` removes while a snapshot takes it up again."""

from __future__ import annotations

import os
import time
from pathlib import Path

from snapshot.project import SnapshotProject

from gofer.storage.file import FileStore


class Pruned(FileStore):
    """A store from which somebody removes the packs older than a day when the first manifest is to come."""

    times = 1

    def put(self, key: str, data: bytes, *, new: bool = False) -> None:
        if key.startswith("snapshots/") and self.times > 0:
            self.times -= 1
            for pack in self.path("packs").iterdir():
                if time.time() - pack.stat().st_mtime > 86400:
                    pack.unlink()
        super().put(key, data, new=new)


def age(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 2 * 86400,) * 2)


def test_packs_that_went_before_the_manifest_came_are_sent_again(project: SnapshotProject) -> None:
    project.write({"a/train.py": "print(1)", "notes.txt": "one"})
    project.take()
    age(project.root / "store")
    project.write({"notes.txt": "another"}, old=False)
    project.store = Pruned(project.root / "store")
    taken = project.take()
    folder = project.restore(taken.id)
    assert (folder / "a/train.py").read_text() == "print(1)"
    assert (folder / "notes.txt").read_text() == "another"


def test_a_manifest_that_is_taken_up_again_is_young_again(project: SnapshotProject) -> None:
    project.write({"train.py": "print(1)"})
    taken = project.take()
    age(project.root / "store")
    assert project.take().id == taken.id
    info = project.store.head(f"snapshots/{taken.id}")
    assert info is not None and time.time() - info.modified < 3600
