"""A project with data in it, and the command line as its user types it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from home import Done, Home

from gofer.cli.main import main

# Names that break programs which think of paths as words; the last is no UTF-8.
ODD_NAMES = [
    "with blank",
    "quote'\"",
    "-dash",
    "#hash?",
    "%41&+",
    "ünïcödé",
    "new\nline",
    "back\\slash",
    "star*[a]",
]
NO_UTF8 = os.fsdecode(b"latin-\xe9")


class Project(Home):
    """A home of gofer with a project that has a folder `data`, and a folder for a store beside it.

    Commands run inside the test's process, which takes a tenth of the time; `start` makes a real one.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.data = self.folder / "data"
        self.data.mkdir(exist_ok=True)

    def gofer(
        self, *words: str, status: int | None = 0, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> Done:
        """One command line, to its end; AssertionError unless it exits with `status` (None: with any)."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape") for _ in range(2))
        before = dict(os.environ)
        try:
            os.environ.clear()
            os.environ.update({**self.environ, **(env or {})})
            with contextlib.chdir(cwd or self.folder), redirect_stdout(out), redirect_stderr(err):
                ended = main(list(words))
        finally:
            os.environ.clear()
            os.environ.update(before)
        done = Done(ended, _text(out), _text(err))
        assert status is None or ended == status, f"{words} exited {ended}: {done.err}{done.out}"
        return done

    def process(self, *words: str, status: int | None = 0) -> Done:
        """As `gofer`, in a process of its own."""
        return super().gofer(*words, status=status)

    @property
    def store(self) -> Path:
        path = self.root / "store"
        path.mkdir(exist_ok=True)
        return path

    @property
    def objects(self) -> list[str]:
        """The keys of all objects in the store."""
        files = (path for path in self.store.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.store)) for path in files if ".gofer-tmp" not in path.parts)

    def write(self, name: str, content: bytes | str = b"x") -> Path:
        """A file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def fill(self, name: str, files: int = 20, *, seed: int = 1) -> Path:
        """A folder of small files: random bytes, empty ones, odd names, a program, a link."""
        chance = random.Random(seed)
        for number in range(files):
            self.write(f"{name}/part{number % 3}/{number}.bin", chance.randbytes(chance.randrange(3000)))
        for odd in [*ODD_NAMES, NO_UTF8]:
            self.write(f"{name}/{odd}/{odd}", odd.encode("utf-8", "surrogateescape"))
        self.write(f"{name}/empty", b"")
        self.write(f"{name}/run.sh", "#!/bin/sh\n").chmod(0o755)
        (self.folder / name / "link").symlink_to("run.sh")
        return self.folder / name

    def listed(self, *words: str) -> list[dict[str, Any]]:
        """What `gofer ls --json` prints."""
        found: list[dict[str, Any]] = json.loads(self.gofer("ls", "--json", *words).out)
        return found

    def paths(self, *words: str) -> list[str]:
        return [str(one["path"]) for one in self.listed(*words)]

    def away(self, name: str) -> Path:
        """Move a folder of the project out of it; where it is then."""
        moved = self.root / f"away-{name.replace('/', '-')}"
        (self.folder / name).rename(moved)
        return moved


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8", "surrogateescape")


def same(one: Path, other: Path, *, programs: bool = True) -> None:
    """AssertionError unless `diff -r` finds nothing and, with `programs`, those are such on both sides."""
    done = subprocess.run(["diff", "-r", one, other], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b""), done.stdout + done.stderr
    assert not programs or _programs(one) == _programs(other)


def _programs(folder: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in files if os.access(path, os.X_OK)}
