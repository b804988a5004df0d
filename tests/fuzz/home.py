"""A copy of the seed home that is made whole again after each case."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

# Of a file: time, change time, inode, size, mode. A folder has only its mode.
_Signature = tuple[int, ...]


class HomeCopy:
    """Only what a case changed is copied again, so that a case which changes nothing costs one walk.

    The files are copies and no links: gofer writes some of them in place. A copy has the time of its seed,
    so that every later write shows, also one within the same tick of the clock.
    """

    def __init__(self, seed: Path, path: Path) -> None:
        self.path = path
        self._seed = seed
        self._names = sorted(_signatures(seed))
        self._state: dict[str, _Signature] = {}
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        self.restore()

    def restore(self) -> None:
        """Make the copy like the seed again."""
        found = _signatures(self.path)
        if found == self._state and found:
            return
        for name in sorted(found.keys() - self._state.keys(), reverse=True):
            _remove(self.path / name)
        for name in self._names:  # a folder comes before what lies in it
            if name not in found or found[name] != self._state.get(name):
                if not _are_folders(self._seed / name, self.path / name):
                    _remove(self.path / name)
                _copy(self._seed / name, self.path / name)
        self._state = _signatures(self.path)


def _signatures(top: Path) -> dict[str, _Signature]:
    """Every file, link and folder below `top` with what shows that it was changed; no pipes and sockets."""
    found: dict[str, _Signature] = {}
    folders = [""]
    while folders:
        prefix = folders.pop()
        with os.scandir(top / prefix) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    folders.append(f"{prefix}{entry.name}/")
                    found[f"{prefix}{entry.name}"] = (status.st_mode,)
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    found[f"{prefix}{entry.name}"] = (
                        status.st_mtime_ns,
                        status.st_ctime_ns,
                        status.st_ino,
                        status.st_size,
                        status.st_mode,
                    )
    return found


def _are_folders(*paths: Path) -> bool:
    return all(path.is_dir() and not path.is_symlink() for path in paths)


def _remove(path: Path) -> None:
    if _are_folders(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy(source: Path, path: Path) -> None:
    if _are_folders(source):
        path.mkdir(exist_ok=True)
        shutil.copymode(source, path)
    else:
        shutil.copy2(source, path, follow_symlinks=False)
