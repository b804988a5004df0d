"""Atomic writes of files: the bytes go into a temporary file that no listing shows, which is then renamed."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

TEMP_FOLDER = ".gofer-tmp"
_STALE_S = 86400.0


class WholeFile:
    """A context for one file: `write` its bytes, then `place` it. Without `place`, nothing is left of it.

    A killed process leaves its temporary file in TEMP_FOLDER, where `sweep` removes it. Raises OSError.
    """

    def __init__(self, root: Path) -> None:
        self._temp = root / TEMP_FOLDER / f"{os.getpid()}-{os.urandom(8).hex()}"
        self._file = -1

    def __enter__(self) -> WholeFile:
        # O_EXCL: never write into a file that another process made.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._file = os.open(self._temp, flags, 0o666)
        except FileNotFoundError:
            with suppress(FileExistsError):
                # Not the root too: the folder of a store that is not mounted must not be made.
                os.mkdir(self._temp.parent)
            self._file = os.open(self._temp, flags, 0o666)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)
        with suppress(FileNotFoundError):
            os.unlink(self._temp)

    def write(self, data: bytes) -> None:
        write_all(self._file, data)

    def flush(self) -> None:
        """Write the bytes to the disk (fsync). Blocking."""
        os.fsync(self._file)

    def place(self, path: Path, *, new: bool) -> None:
        """Give the file its name, atomically; with `new`, FileExistsError when the name is taken."""
        if not new:
            os.replace(self._temp, path)
            return
        try:
            os.link(self._temp, path)
        except FileExistsError:
            # Over NFS, the answer to a link can be lost and the link repeated: the second try then finds the
            # name taken. Two links to the file mean that the name is our own.
            if os.fstat(self._file).st_nlink < 2:
                raise


def write_all(file: int, data: bytes) -> None:
    """Write all bytes. One write is enough, except on full disks and beyond 2 GiB."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def sweep(root: Path) -> None:
    """Remove temporary files that killed processes left more than a day ago. Errors are ignored."""
    before = time.time() - _STALE_S
    with suppress(OSError), os.scandir(root / TEMP_FOLDER) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(entry.path)
