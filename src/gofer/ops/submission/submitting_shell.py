"""What a run takes over from the shell that submits it: standard input, if the person asks for it, and
limits, umask, niceness and CPU affinity.

Without `--stdin`, no byte of standard input is read, so that a loop that reads a list and submits runs keeps
its list.
"""

from __future__ import annotations

import array
import fcntl
import os
import re
import stat
import termios
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.core import private_folder
from gofer.core.command.process_limits import ProcessLimits, read_limits, too_low
from gofer.errors import CheckFailed, UsageError
from gofer.ops.messages import Hint, Message, Warning
from gofer.text import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.session import Session


MOST_BYTES = 16 << 20
_FROM_SHELL = re.compile(r"(?:.*=)?/(?:dev|proc/self)/fd/(?:[3-9]|\d\d+)")


def read_all(fd: int = 0) -> bytes:
    """Read standard input to its end. Blocks. UsageError for more than 16 MiB, and when it is closed."""
    pieces, size = [], 0
    try:
        while piece := os.read(fd, 1 << 20):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES:
                raise UsageError(
                    f"`--stdin` sends at most {format_size(MOST_BYTES)}, and there is more",
                    hint="save the input to a file of the project, and name the file in the command",
                )
    except OSError as error:
        raise UsageError(f"`--stdin`: standard input cannot be read: {error.strerror}") from error
    return b"".join(pieces)


def check_words(command: Sequence[str]) -> None:
    """CheckFailed for a path that only this shell can open, such as the `/dev/fd/63` of `<(…)`."""
    word = next((word for word in command if _FROM_SHELL.fullmatch(word)), None)
    if word is not None:
        raise CheckFailed(
            f"`{word}` is a file of this shell, made by `<(…)`, which a run cannot open",
            hint="make it in the run: `gofer submit bash -c 'COMMAND <(…)'`",
        )


def say_unread(session: Session, fd: int = 0) -> None:
    """Tell the person that waiting standard input was not sent; once for each input of a shell."""
    if not _has_more(fd):
        return
    status = os.fstat(fd)
    mark = f"{os.getppid()}:{status.st_dev}:{status.st_ino}"
    path = session.paths.cache_dir / "stdin-unread"
    with suppress(OSError):
        if path.read_text() == mark:
            return
    with suppress(OSError):
        private_folder.make_missing(path.parent)
        path.write_text(mark)
    session.emit(
        Message("standard input was neither read nor sent; `gofer submit --stdin …` sends it to the command")
    )


def _has_more(fd: int) -> bool:
    """Whether a file or pipe has unread bytes; False for a terminal or device. Reads nothing."""
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            return os.lseek(fd, 0, os.SEEK_CUR) < status.st_size
        if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
            waiting = array.array("i", [0])
            fcntl.ioctl(fd, termios.FIONREAD, waiting)
            return waiting[0] > 0
    except OSError:  # closed, or of a kind that cannot say
        return False
    return False


def read_shell_limits(session: Session) -> ProcessLimits:
    """The limits for the run. Warns about limits that the running supervisor cannot provide."""
    wanted = read_limits()
    problems = too_low(wanted, _supervisor(session))
    if problems:
        session.emit(Warning(f"the queue was started with lower limits: {'; '.join(problems)}"))
        session.emit(
            Hint("the queue's supervisor ends by itself when no run is left; submit again after that")
        )
    return wanted


def _supervisor(session: Session) -> int:
    """The pid of the supervisor that works off the queue; 0 when there is none."""
    try:
        pid = int((session.paths.queue_home / "supervisor.lock").read_text() or 0)
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return 0
    return pid if (b"gofer.queue.program" in words or b"gofer.agent.supervise" in words) else 0
