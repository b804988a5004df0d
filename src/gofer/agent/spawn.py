"""Start one process of a run so that it is started at most once.

The log is created by the new process itself, on its way from the fork to the command, and must not exist
before: a log that is there says that the command was started, and keeps every later try from starting it
again. `posix_spawn` does both steps without copying the agent's memory, which is most of the cost of a start.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import NamedTuple

from gofer.agent import files

CANNOT_RUN = 126
NOT_FOUND = 127
_DEFAULT_SIGNALS = [
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGPIPE,
    signal.SIGCHLD,
    signal.SIGUSR1,
    signal.SIGUSR2,
]


class Command(NamedTuple):
    """What to execute. `log` receives stdout and stderr; with `fenced` it must not exist yet."""

    argv: list[str]
    environment: dict[str, str]
    log: str
    fenced: bool


class AlreadyStarted(Exception):
    """The log exists: this rank was started before, perhaps by an agent that is dead now."""


class CannotRun(Exception):
    """The command could not be executed; `status` is what a shell would say. Its log says so too."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


def start(command: Command) -> int:
    """The pid of the command, leading a session of its own in the current folder."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_EXCL if command.fenced else 0)
    program = command.argv[0]

    def spawn() -> int:
        return os.posix_spawn(
            locate(program, command.environment.get("PATH", os.defpath)) or f"/nonexistent/{program}",
            command.argv,
            command.environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, command.log, append, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            ],
            setsid=True,
            setsigdef=_DEFAULT_SIGNALS,
            setsigmask=(),
        )

    try:
        # Where a full disk has no room for the log, it was not made, and so nothing was started.
        return files.patiently(spawn)
    except FileExistsError:
        raise AlreadyStarted from None
    except OSError as error:
        words = f"cannot run `{program}`: {os.strerror(error.errno or 0)}"
        _append(command.log, f"gofer: {words}\n")
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        raise CannotRun(words, NOT_FOUND if missing else CANNOT_RUN) from None


def locate(program: str, search: str) -> str | None:
    """Where a shell whose PATH is `search` would find the program."""
    if "/" in program:
        return program
    for place in search.split(os.pathsep):
        path = os.path.join(place or ".", program)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def _append(log: str, words: str) -> None:
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, words.encode("utf-8", "surrogateescape"))
    finally:
        os.close(fd)
