"""Folders of files for transfers, and what is in them afterwards."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

LONG_AGO_S = 1_600_000_000


def write(root: Path, files: Mapping[str, bytes], *, age_s: float | None = None) -> Path:
    """Write the files below `root`; by default as if that had been long ago."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if age_s is None:
            os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return root


def read(root: Path) -> dict[str, bytes]:
    """Every file below `root`, unfinished ones too, by its path."""
    found: dict[str, bytes] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            found[str(path.relative_to(root))] = path.read_bytes()
    return found


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that no compression or repetition hides a mistake in."""
    return random.Random(seed).randbytes(size)


def many(count: int, *, least: int = 0, most: int = 5000, seed: int = 0) -> dict[str, bytes]:
    """Small files of all sizes in a few folders, the empty one among them."""
    chance = random.Random(seed)
    return {
        f"d{n % 7}/e{n % 3}/f{n:05d}": chance.randbytes(chance.randrange(least, most)) for n in range(count)
    }
