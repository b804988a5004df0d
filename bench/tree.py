"""A folder of many files under git, the same on every machine."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.errors import BenchError

_FOLDERS = 200
_LINE = 80


def make(folder: Path, files: int, size: int, env: Mapping[str, str]) -> None:
    """Writes `files` text files of `size` bytes in all into 200 subfolders of `folder` and commits them.

    Sizes vary tenfold and more, as they do in code; the text packs to about half, as code does.
    """
    chance = random.Random(20_000)
    weights = [chance.lognormvariate(0, 1) for _ in range(files)]
    total = sum(weights)
    for number in range(_FOLDERS):
        (folder / f"part_{number:03}").mkdir()
    for number, weight in enumerate(weights):
        path = folder / f"part_{number % _FOLDERS:03}" / f"file_{number:05}.txt"
        path.write_bytes(_text(chance, int(weight / total * size)))
    _git(folder, env, "init", "--quiet")
    _git(folder, env, "add", "--all")
    _git(
        folder,
        env,
        "-c",
        "user.name=bench",
        "-c",
        "user.email=bench@invalid",
        "commit",
        "--quiet",
        "-m",
        "tree",
    )


def change_one(folder: Path, number: int) -> int:
    """Appends a line to one file that no earlier `number` touched; the file's new size in bytes."""
    path = sorted((folder / f"part_{number % _FOLDERS:03}").glob("file_*.txt"))[0]
    with path.open("ab") as file:
        file.write(b"changed %d\n" % number)
    return path.stat().st_size


def _text(chance: random.Random, size: int) -> bytes:
    """`size` bytes of hexadecimal digits in lines."""
    digits = chance.randbytes(size // 2 + 1).hex().encode()
    lines = [digits[at : at + _LINE - 1] for at in range(0, len(digits), _LINE - 1)]
    return b"\n".join(lines)[:size]


def _git(folder: Path, env: Mapping[str, str], *arguments: str) -> None:
    try:
        subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={**os.environ, **env},
            check=True,
            capture_output=True,
            timeout=300,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchError(f"`git {arguments[0]}` failed in {folder}: {error}") from error
