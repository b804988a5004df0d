"""Start one process of a run so that it is started at most once.

The log is created by the new process itself, on its way from the fork to the command, and must not exist
before: a log that is there says that the command was started, and keeps every later try from starting it
again. `posix_spawn` does both steps without copying the agent's memory, which is most of the cost of a start.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import Any, Callable, List, Mapping, NamedTuple, NoReturn, Optional

from gofer.core import files, process_limits, shebang
from gofer.core.programs import locate

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


class RankCommand(NamedTuple):
    """What to execute. `log` receives stdout and stderr; with `fenced` it must not exist yet.

    `limits` are as gofer.core.process_limits reads them, and `say` hears which of them cannot be given.
    `stdin` is the file that standard input is read from.
    """

    argv: list[str]
    environment: dict[str, str]
    log: str
    fenced: bool
    limits: Optional[Mapping[str, Any]] = None
    say: Callable[[List[str]], None] = lambda problems: None
    stdin: str = os.devnull


class AlreadyStarted(Exception):
    """The log exists: this rank was started before, perhaps by an agent that is dead now."""


class CannotRun(Exception):
    """The command could not be executed; `status` is what a shell would say. Its log says so too."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


def start(command: RankCommand) -> int:
    """The pid of the command, leading a session of its own in the current folder."""
    program = command.argv[0]
    path = locate(program, command.environment.get("PATH", os.defpath)) or f"/nonexistent/{program}"
    try:
        # Where a full disk has no room for the log, it was not made, and so nothing was started.
        return files.patiently(lambda: _execute(command, path))
    except FileExistsError:
        raise AlreadyStarted from None
    except OSError as error:
        words = f"cannot run `{program}`: {shebang.explain(path, error.errno)}"
        append_line(command.log, words)
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        raise CannotRun(words, NOT_FOUND if missing else CANNOT_RUN) from None


def _execute(command: RankCommand, path: str) -> int:
    """As a shell does, a file without `#!` is given to `/bin/sh`. The log is there by then: it is ours."""
    start = _fork_limited if process_limits.differing(command.limits) else _posix_spawn
    try:
        return start(command, path)
    except OSError as error:
        argv = shebang.shell_argv(path, command.argv) if error.errno == errno.ENOEXEC else None
        if argv is None:
            raise
    return start(command._replace(argv=argv, fenced=False), argv[0])


def _log_flags(command: RankCommand) -> int:
    return os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_EXCL if command.fenced else 0)


def _posix_spawn(command: RankCommand, path: str) -> int:
    return os.posix_spawn(
        path,
        command.argv,
        command.environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, command.log, _log_flags(command), 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            (os.POSIX_SPAWN_OPEN, 0, command.stdin, os.O_RDONLY, 0),
        ],
        setsid=True,
        setsigdef=_DEFAULT_SIGNALS,
        setsigmask=(),
    )


def _fork_limited(command: RankCommand, path: str) -> int:
    """As `_posix_spawn`, for a command whose limits are not those of this process. OSError of the child."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_limited(command, path, writing)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        *problems, number = pipe.read().split("\n")
    if problems:
        command.say(problems)
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)))
    return pid


def _be_limited(command: RankCommand, path: str, writing: int) -> NoReturn:
    """In the forked child: becomes the command, or ends.

    Writes a line for each limit that cannot be given, and last, without a line end, the number of the error
    that kept the command from being started. The pipe closes with the start or with the end.
    """
    try:
        os.setsid()
        for number in _DEFAULT_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        log = os.open(command.log, _log_flags(command), 0o644)
        stdin = os.open(command.stdin, os.O_RDONLY)
        for fd, place in ((log, 1), (log, 2), (stdin, 0)):
            os.dup2(fd, place)
        problems = process_limits.apply_limits(process_limits.differing(command.limits))
        os.write(writing, "".join(f"{one}\n" for one in problems).encode())
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(path, command.argv, command.environment)
    except OSError as error:
        os.write(writing, str(error.errno or errno.EIO).encode())
    finally:
        os._exit(CANNOT_RUN)


def append_line(log: str, words: str) -> None:
    """Add a line of gofer's own to the log of a command. OSError when that cannot be."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, f"gofer: {words}\n".encode("utf-8", "surrogateescape"))
    finally:
        os.close(fd)
