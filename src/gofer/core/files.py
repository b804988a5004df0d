"""Small durable writes on a node: replace a file in one step, append lines, wait while the disk is full."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from typing import Any, Callable, Iterator, TypeVar

from gofer.core.json_text import parse_json
from gofer.core.log_lines import last_states
from gofer.core.retry import backoff, retry, retry_if

T = TypeVar("T")

# People usually free space on a full disk. A record of how a run ended is worth waiting for.
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_DISK_PATIENCE_S = 24 * 3600.0


def encode(value: object) -> bytes:
    """Compact JSON in ASCII. Names that are not UTF-8 are kept: their lone surrogates are escaped."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def write_whole(
    path: str, data: bytes, *, mode: int = 0o644, durable: bool = False, exact_mode: bool = False
) -> None:
    """Replace the file in one step: a reader sees the old or the new contents, whatever is killed.

    With `exact_mode` the umask does not change the mode. The temporary file is always a new file with a name
    that nobody can guess. So a link that somebody else put into the folder is never followed.
    """
    temporary = f"{path}.{os.getpid()}-{os.urandom(6).hex()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        try:
            if exact_mode:
                os.fchmod(fd, mode)
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
    """Lock the file, and create it when absent; the descriptor that holds the lock. `how` is that of
    fcntl.flock.

    OSError when the file cannot be locked; BlockingIOError with LOCK_NB while another process holds the lock.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how)
    except OSError:
        os.close(fd)
        raise
    return fd


def append(path: str, data: bytes) -> None:
    """Append bytes. If a full disk cut off the last line, start a new line first, so that the next line is
    complete.
    """
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
    """Remove temporary files that `write_whole` left in the folder when its process was killed."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(".tmp"):
            remove(os.path.join(folder, name))


def read_json(path: str) -> dict[str, Any] | None:
    """The JSON object in the file; None when the file is absent or does not hold an object."""
    try:
        with open(path, "rb") as file:
            value = parse_json(file.read())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a `.jsonl` file. Lines that are not a JSON object are skipped."""
    for line in data.split(b"\n"):
        try:
            value = parse_json(line) if line else None
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _unchanged(before: bytes, data: bytes) -> bytes:
    return data


def tail_lines(
    path: str,
    count: int,
    *,
    most: int = 16384,
    clean_after: Callable[[bytes, bytes], bytes] = _unchanged,
    margin: int = 0,
) -> list[str]:
    """The last `count` lines of a log, each as a terminal would show it. Reads at most `most` bytes; empty
    when the log cannot be read.

    `clean_after` gets up to `margin` bytes before those, and those, and returns what the lines are made of.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - most)
            first = max(0, start - margin)
            file.seek(first)
            before = file.read(start - first)
            data = clean_after(before, file.read(most))
    except OSError:
        return []
    lines = last_states(data).decode("utf-8", "replace").split("\n")
    return [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])[-count:]]


def retry_while_full(write: Callable[[], T], *, patience_s: float = FULL_DISK_PATIENCE_S) -> T:
    """Call `write`, and repeat it while the disk is full, for at most `patience_s`. Blocks."""
    pauses = retry_if(lambda error: error.errno in FULL, backoff(0.1, factor=1.5, most_s=5.0))
    return retry(write, errors=OSError, pause_s=pauses, patience_s=patience_s)
