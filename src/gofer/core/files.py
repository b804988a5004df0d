"""Small durable writes on a node: whole files at once, lines at the end, patience with a full disk."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from typing import Any, Callable, Iterator, TypeVar

from gofer.core.json_text import parse_json
from gofer.core.log_lines import last_states
from gofer.core.sleep import pause

T = TypeVar("T")

# A full disk or quota is usually mended by its owner; a record of how a run ended is worth the wait.
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_DISK_PATIENCE_S = 24 * 3600.0


def encode(value: object) -> bytes:
    """Compact JSON that survives names that are not UTF-8 (lone surrogates are escaped)."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def write_whole(path: str, data: bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Replace the file in one step: a reader sees the old or the new, whatever is killed.

    The temporary file has a name that nobody can guess and is made anew, so that a link which somebody else
    put into the folder is never followed.
    """
    temporary = f"{path}.{os.getpid()}-{os.urandom(6).hex()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(fd, data)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except OSError:
        remove(temporary)
        raise


def lock(path: str, how: int) -> int:
    """A descriptor that holds the lock `how` (as fcntl.flock takes it) on the file, made when absent.

    OSError when it cannot be had; BlockingIOError with LOCK_NB while another process holds it.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how)
    except OSError:
        os.close(fd)
        raise
    return fd


def append(path: str, data: bytes) -> None:
    """Add bytes at the end; a line that a full disk cut short is closed off, so that the next is whole."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data
        write_all(fd, data)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def remove_halves(folder: str) -> None:
    """Remove what `write_whole` of a process that was killed left in the folder."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(".tmp"):
            remove(os.path.join(folder, name))


def read_json(path: str) -> dict[str, Any] | None:
    """The object in the file; None when absent or not whole."""
    try:
        with open(path, "rb") as file:
            value = parse_json(file.read())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a `.jsonl` file; a torn or foreign line is passed over."""
    for line in data.split(b"\n"):
        try:
            value = parse_json(line) if line else None
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def tail_lines(path: str, count: int, *, most: int = 16384) -> list[str]:
    """The last lines of a log, each at its last state, read from its end; never more than `most` bytes."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return []
    lines = last_states(data).decode("utf-8", "replace").split("\n")
    return [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])[-count:]]


def patiently(write: Callable[[], T], *, patience_s: float = FULL_DISK_PATIENCE_S) -> T:
    """Do `write`, again and again while the disk is full, for at most `patience_s`."""
    deadline = time.monotonic() + patience_s
    delay = 0.1
    while True:
        try:
            return write()
        except OSError as error:
            if error.errno not in FULL or time.monotonic() > deadline:
                raise
        pause(delay)
        delay = min(delay * 1.5, 5.0)
