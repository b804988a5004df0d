"""Old code that `gofer prune --code` removes while a snapshot takes it up again."""

from __future__ import annotations

import os
import time
from pathlib import Path

from snapshot.desk import Desk

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


def test_packs_that_went_before_the_manifest_came_are_sent_again(desk: Desk) -> None:
    desk.write({"a/train.py": "print(1)", "notes.txt": "one"})
    desk.take()
    age(desk.place / "store")
    desk.write({"notes.txt": "another"}, old=False)
    desk.store = Pruned(desk.place / "store")
    taken = desk.take()
    folder = desk.restore(taken.id)
    assert (folder / "a/train.py").read_text() == "print(1)"
    assert (folder / "notes.txt").read_text() == "another"


def test_a_manifest_that_is_taken_up_again_is_young_again(desk: Desk) -> None:
    desk.write({"train.py": "print(1)"})
    taken = desk.take()
    age(desk.place / "store")
    assert desk.take().id == taken.id
    info = desk.store.head(f"snapshots/{taken.id}")
    assert info is not None and time.time() - info.modified < 3600
