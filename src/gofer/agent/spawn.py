"""Start one process of a run so that it is started at most once, and dies with its agent."""

from __future__ import annotations

import errno
import os
import signal
from typing import Dict, List, NamedTuple, NoReturn, Optional

from gofer.agent import cgroups, processes

CANNOT_RUN = 126
NOT_FOUND = 127
_NOT_STARTED = 125


class Command(NamedTuple):
    """What to execute. `log` receives stdout and stderr; with `fenced` it must not exist yet."""

    argv: List[str]
    environment: Dict[str, str]
    folder: str
    log: str
    fenced: bool
    cgroup: Optional[str]


class Started(NamedTuple):
    """A forked process; `errors` yields nothing once the command runs, else what went wrong."""

    pid: int
    errors: int


class AlreadyStarted(Exception):
    """The log exists: this rank was started before, perhaps by an agent that is dead now."""


def start(command: Command) -> Started:
    """Fork towards the command; returns before it runs. Call `confirm` to learn whether it does."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(command, parent, writing)
    os.close(writing)
    return Started(pid, reading)


def confirm(started: Started) -> Optional[str]:
    """None once the command runs; else why it cannot, in words. AlreadyStarted when the fence held."""
    with open(started.errors, "rb") as pipe:
        answer = pipe.read().decode("utf-8", "replace")
    if answer == "fence":
        os.waitpid(started.pid, 0)
        raise AlreadyStarted
    return answer or None


def _become(command: Command, parent: int, errors: int) -> NoReturn:
    status = _NOT_STARTED
    try:
        processes.die_with_parent()
        if os.getppid() != parent:
            os._exit(status)
        _reset_signals()
        os.setsid()
        if command.cgroup is not None:
            cgroups.join(command.cgroup)
        status = _execute(command, errors)
    except BaseException as error:  # the child of a fork must never run its parent's code
        _tell(errors, f"the process could not be prepared: {error}")
    os._exit(status)


def _execute(command: Command, errors: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_EXCL if command.fenced else 0)
    try:
        log = os.open(command.log, flags, 0o644)
    except FileExistsError:
        _tell(errors, "fence")
        return _NOT_STARTED
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        os.chdir(command.folder)
        os.execvpe(command.argv[0], command.argv, command.environment)
    except OSError as error:
        words = f"cannot run `{command.argv[0]}`: {os.strerror(error.errno or 0)}"
        os.write(2, f"gofer: {words}\n".encode("utf-8", "surrogateescape"))
        _tell(errors, words)
        return NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else CANNOT_RUN


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for sig in (
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGCHLD,
        signal.SIGPIPE,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        signal.signal(sig, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _tell(errors: int, words: str) -> None:
    try:
        os.write(errors, words.encode("utf-8", "surrogateescape"))
    except OSError:
        pass
