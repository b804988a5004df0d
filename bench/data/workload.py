"""The files that are moved, the same on every machine, and the check that they came back as they were."""

from __future__ import annotations

import filecmp
import os
import random
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

SMALL, LARGE = "small", "large"
_FOLDERS = 100
_LEAST, _MOST = 4 << 10, 64 << 10
_PIECE = 8 << 20
# Long ago, so that no client takes a file for one that is still being written.
_MADE_AT = 1_700_000_000


@dataclass(frozen=True)
class Workload:
    """The folder `root/name` and what is in it."""

    root: Path
    name: str
    files: int
    size: int

    @property
    def folder(self) -> Path:
        return self.root / self.name


def make_small(root: Path, files: int) -> Workload:
    """`files` files of 4 to 64 KiB in a hundred folders, ten in each of ten."""
    chance = random.Random(files)
    total = 0
    for number in range(files):
        at = number % _FOLDERS
        path = root / SMALL / f"part_{at // 10}" / f"set_{at % 10}" / f"file_{number:05}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = chance.randbytes(chance.randint(_LEAST, _MOST))
        path.write_bytes(data)
        os.utime(path, (_MADE_AT, _MADE_AT))
        total += len(data)
    return Workload(root, SMALL, files, total)


def make_large(root: Path, size: int) -> Workload:
    """One file that does not compress."""
    chance = random.Random(size)
    path = root / LARGE / "one.bin"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for start in range(0, size, _PIECE):
            file.write(chance.randbytes(min(_PIECE, size - start)))
    os.utime(path, (_MADE_AT, _MADE_AT))
    return Workload(root, LARGE, 1, size)


def verify(work: Workload, copy: Path) -> None:
    """BenchError unless `copy` has the workload's files, all of them, byte for byte, and no others."""
    expected, found = _files(work.folder), _files(copy)
    if expected != found:
        odd = sorted(expected ^ found)
        raise BenchError(f"{len(odd)} files are missing or too many, the first: {odd[0]}")
    for name in sorted(expected):
        if not filecmp.cmp(work.folder / name, copy / name, shallow=False):
            raise BenchError(f"{name} did not come back as it was sent")


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
