"""Start one process of a run so that it is started at most once.

The new process itself creates the log, between the fork and the command, and the log must not exist before.
So a log that exists means that the command was started, and every later try fails. `posix_spawn` does both
steps without copying the agent's memory, which would be most of the cost of a start.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import Callable, Dict, List, NamedTuple, NoReturn, Optional, Tuple

from gofer.core import files
from gofer.core.command import process_limits, shebang
from gofer.core.command.process_limits import ProcessLimits
from gofer.core.command.programs import locate

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
# The path of the program that was started last, by its name and PATH.
_located: Dict[Tuple[str, str], str] = {}


class RankCommand(NamedTuple):
    """What to execute. `log` receives stdout and stderr; with `fenced`, it must not exist yet.

    `limits` are as gofer.core.command.process_limits reads them; `report` gets those that cannot be set.
    `stdin` is the file for standard input.
    """

    argv: list[str]
    environment: dict[str, str]
    log: str
    fenced: bool
    limits: Optional[ProcessLimits] = None
    report: Callable[[List[str]], None] = lambda problems: None
    stdin: str = os.devnull


class AlreadyStarted(Exception):
    """The log exists: this rank was started before, perhaps by an agent that is now dead."""


class CannotRun(Exception):
    """The command could not be executed. `status` is the exit status of a shell in that case. The log has the
    error too.
    """

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


def start(command: RankCommand) -> int:
    """Start the command in the current folder, in a session of its own; its pid. AlreadyStarted or
    CannotRun.
    """
    program = command.argv[0]
    path = _locate(program, command.environment.get("PATH", os.defpath)) or f"/nonexistent/{program}"
    try:
        # If the disk is too full for the log, the log was not created and nothing was started, so try again.
        return files.retry_while_full(lambda: _execute(command, path))
    except FileExistsError:
        raise AlreadyStarted from None
    except OSError as error:
        words = f"cannot run `{program}`: {shebang.explain(path, error.errno)}"
        append_line(command.log, words)
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        raise CannotRun(words, NOT_FOUND if missing else CANNOT_RUN) from None


def _locate(program: str, search: str) -> Optional[str]:
    """Like `locate`. Remembers where a program was found: the rows of an array start the same one."""
    path = _located.get((program, search))
    if path is None or not os.access(path, os.X_OK):
        path = locate(program, search)
        if path is not None and "/" not in program:
            _located.clear()
            _located[program, search] = path
    return path


def _execute(command: RankCommand, path: str) -> int:
    """Start the command. As in a shell, a file without `#!` is run by `/bin/sh`. This process has then
    created the log with the first try.
    """
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
    """Like `_posix_spawn`, for a command whose limits differ from those of this process. Raises the child's
    OSError.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _limit_and_execute(command, path, writing)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        *problems, number = pipe.read().split("\n")
    if problems:
        command.report(problems)
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)))
    return pid


def _limit_and_execute(command: RankCommand, path: str, writing: int) -> NoReturn:
    """In the forked child: become the command, or end.

    Writes to the pipe a line for each limit that cannot be set. If the command cannot be started, the errno
    follows, without a line end. The pipe closes when the command starts or the child ends.
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
    """Add a line of gofer to the log of a command. OSError when that fails."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, f"gofer: {words}\n".encode("utf-8", "surrogateescape"))
    finally:
        os.close(fd)
