"""Files that appear whole or not at all: written under a name that is never listed, then moved into place."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

TEMP_FOLDER = ".gofer-tmp"
_STALE_S = 86400.0


class WholeFile:
    """A context: write the bytes, then `place` the file. What was not placed is gone at the end.

    A process killed inside leaves its file in TEMP_FOLDER, where `sweep` finds it. Raises OSError.
    """

    def __init__(self, root: Path) -> None:
        self._temp = root / TEMP_FOLDER / f"{os.getpid()}-{os.urandom(8).hex()}"
        self._file = -1

    def __enter__(self) -> WholeFile:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._file = os.open(self._temp, flags, 0o666)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(self._temp.parent)  # not the root itself: a store that is not mounted stays absent
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
        """Force the bytes to the disk."""
        os.fsync(self._file)

    def place(self, path: Path, *, new: bool) -> None:
        """Give the file its name; FileExistsError with `new` when that is taken."""
        if not new:
            os.replace(self._temp, path)
            return
        try:
            os.link(self._temp, path)
        except FileExistsError:
            # NFS may repeat a link that was made but whose answer was lost; then the file has two names.
            if os.fstat(self._file).st_nlink < 2:
                raise


def write_all(file: int, data: bytes) -> None:
    """One write where the system takes it whole, as it does but for full disks and more than 2 GiB."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def sweep(root: Path) -> None:
    """Remove what killed processes left unfinished more than a day ago."""
    before = time.time() - _STALE_S
    with suppress(OSError), os.scandir(root / TEMP_FOLDER) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(entry.path)
