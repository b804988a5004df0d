"""Starts programs on this machine: argv lists, no shell, always with a time limit.

Nothing here knows what the programs are for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import GoferError, Interrupted
from gofer.text import quote_command

if TYPE_CHECKING:
    import os
    import subprocess

    Folder = str | bytes | os.PathLike[str]


class Finished(NamedTuple):
    """How a program ended; a negative status is the signal that killed it."""

    status: int
    stdout: bytes
    stderr: bytes


class RunningProgram:
    """A started program. Leaving the `with` block kills and reaps what has not finished."""

    def __init__(self, argv: Sequence[str], process: subprocess.Popen[bytes]) -> None:
        self._argv = argv
        self._process = process

    def finish(self, *, timeout_s: float) -> Finished:
        """Wait for the end. Interrupted, and the program killed, when the time is up."""
        import subprocess

        try:
            stdout, stderr = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Interrupted(f"`{quote_command(self._argv)}` did not end within {timeout_s:g} s") from None
        return Finished(self._process.returncode, stdout, stderr)

    def kill(self) -> None:
        """End and reap the program; nothing happens when it has ended."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()

    def __enter__(self) -> RunningProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def start(
    argv: Sequence[str], *, cwd: Folder | None = None, env: Mapping[str, str] | None = None
) -> RunningProgram:
    """Start a program without waiting, its input closed; GoferError when it cannot be started.

    Output beyond what a pipe holds makes the program wait until `finish` is called.
    """
    import subprocess  # slow to load, and most commands start nothing

    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
        )
    except OSError as error:
        reason = error.strerror or str(error)
        raise GoferError(
            f"cannot start `{argv[0]}`: {reason}", hint=f"is it installed? try `command -v {argv[0]}`"
        ) from error
    return RunningProgram(argv, process)


def run(
    argv: Sequence[str], *, timeout_s: float, cwd: Folder | None = None, env: Mapping[str, str] | None = None
) -> Finished:
    """Start a program and wait for its end; whatever status it ends with is the caller's to judge."""
    with start(argv, cwd=cwd, env=env) as running:
        return running.finish(timeout_s=timeout_s)
