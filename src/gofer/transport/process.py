"""Starts programs on this machine, from a list of arguments and without a shell.

`start` and `run` keep the output of a program. `start_in_background` does not wait for it. `attend` gives a
program the terminal, for a person who watches it. `become` replaces this process. This module does not know
what the programs are for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple, NoReturn

from gofer.errors import GoferError, Interrupted
from gofer.text import quote_command

if TYPE_CHECKING:
    import subprocess

    Folder = str | bytes | os.PathLike[str]


class Finished(NamedTuple):
    """How a program ended; a negative status is the number of the signal that killed it."""

    status: int
    stdout: bytes
    stderr: bytes


class RunningProgram:
    """A started program. Leaving the `with` block kills and reaps a program that has not ended."""

    def __init__(self, argv: Sequence[str], process: subprocess.Popen[bytes]) -> None:
        self._argv = argv
        self._process = process

    def finish(self, *, timeout_s: float) -> Finished:
        """Wait for the end. Blocking. After `timeout_s`, kills the program and raises Interrupted."""
        import subprocess

        try:
            stdout, stderr = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Interrupted(f"`{quote_command(self._argv)}` did not end within {timeout_s:g} s") from None
        return Finished(self._process.returncode, stdout, stderr)

    def kill(self) -> None:
        """Kill and reap the program. Does nothing when it has ended."""
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
    """Start a program with closed input and return at once; GoferError when it cannot be started.

    A program that fills a pipe with output waits until `finish` reads it.
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
        raise _not_started(argv, error) from error
    return RunningProgram(argv, process)


def run(
    argv: Sequence[str], *, timeout_s: float, cwd: Folder | None = None, env: Mapping[str, str] | None = None
) -> Finished:
    """Run a program to its end. Blocking. Any exit status is returned; the caller decides what it means."""
    with start(argv, cwd=cwd, env=env) as running:
        return running.finish(timeout_s=timeout_s)


def run_into(
    argv: Sequence[str],
    out: IO[bytes],
    complaints: IO[bytes],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
) -> int:
    """As `run`, with the output in files, which a program that stays in the background may keep open. The
    status of the program.
    """
    import subprocess

    with _explained(argv, timeout_s):
        return subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=complaints,
            env=env,
            timeout=timeout_s,
            check=False,
            start_new_session=True,
        ).returncode


def start_in_background(argv: Sequence[str], *, env: Mapping[str, str]) -> None:
    """Start a program that continues when this process ends, without input and output, in the root folder.

    Does not wait. GoferError when it cannot be started.
    """
    import subprocess

    none = subprocess.DEVNULL
    try:
        subprocess.Popen(
            list(argv), stdin=none, stdout=none, stderr=none, cwd="/", env=env, start_new_session=True
        )
    except OSError as error:
        raise _not_started(argv, error) from error


@contextmanager
def _explained(argv: Sequence[str], timeout_s: float) -> Iterator[None]:
    """Raise GoferError for a program that cannot be started, and Interrupted for one that takes too long."""
    import subprocess

    try:
        yield
    except OSError as error:
        raise _not_started(argv, error) from error
    except subprocess.TimeoutExpired:
        raise Interrupted(f"`{argv[0]}` did not end within {timeout_s:g} s") from None


def _not_started(argv: Sequence[str], error: OSError) -> GoferError:
    return GoferError(
        f"cannot start `{argv[0]}`: {error.strerror or error}",
        hint=f"check that it is installed: `command -v {argv[0]}`",
    )


def attend(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    input_text: str | None = None,
) -> int:
    """Run the program to its end and return its status. Blocking. Its output goes to stderr, with gofer's
    messages.

    Its input is the terminal, or `input_text`. Raises GoferError when the program cannot be started, and
    Interrupted after `timeout_s`, when the program has been killed.
    """
    import subprocess

    # Otherwise gofer's earlier messages could appear after those of the program.
    sys.stderr.flush()
    with _explained(argv, timeout_s):
        return subprocess.run(
            list(argv),
            input=None if input_text is None else input_text.encode(),
            stdout=sys.stderr.fileno(),
            env=env,
            timeout=timeout_s,
            check=False,
        ).returncode


def become(argv: Sequence[str]) -> NoReturn:
    """Replace this process by the program, which gets the terminal; its exit status becomes ours.

    Call it when nothing is left to close. Raises GoferError when the program cannot be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        raise GoferError(
            f"cannot run `{argv[0]}`: {(error.strerror or str(error)).lower()}",
            hint=f"check that `{argv[0]}` is installed and in a folder of `PATH`",
        ) from error
