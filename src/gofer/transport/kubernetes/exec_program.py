"""`python -m gofer.transport.kubernetes.exec_program`: a command in a pod as a local command line.

With `plain` it passes all bytes on exactly and exits with the status of the command; with `terminal` it gives
the command the terminal of this process. It reads the kubeconfig itself, so its command line has no secret.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from gofer.errors import GoferError
from gofer.transport.kubernetes import kubeconfig
from gofer.transport.kubernetes.exec_stream import LOST, ExecEnd, ExecRequest, LocalStreams, run_in_pod

_MODULE = "gofer.transport.kubernetes.exec_program"
# What a shell gives for a program that a signal ended.
_SIGNALLED = 128
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class ContextName(NamedTuple):
    """Which context of which kubeconfig; empty for those that kubectl would choose. `kept` is the folder for
    credentials of programs that the kubeconfig names.
    """

    file: str = ""
    context: str = ""
    kept: str = ""


def exec_words(name: ContextName, request: ExecRequest) -> list[str]:
    """The local command line that runs the command in the pod."""
    how = "terminal" if request.terminal else "plain"
    words = [*name, request.namespace, request.pod, request.container, how, *request.command]
    return [sys.executable, "-m", _MODULE, *words]


def main(argv: Sequence[str]) -> int:
    """The words are those of `exec_words`; the exit status is that of the command, or LOST."""
    file, context, kept, namespace, pod, container, how, *command = argv
    request = ExecRequest(namespace, pod, container, tuple(command), how == "terminal")
    try:
        found = kubeconfig.load(file=file, context=context)
        with _local_files(request.terminal) as files:
            end = run_in_pod(found, request, files, kept=Path(kept) if kept else None)
    except GoferError as error:
        hint = f"\nhint: {error.hint}" if error.hint else ""
        return _report(ExecEnd(LOST, f"{error.message}{hint}"))
    except BrokenPipeError:
        _discard_output()
        return _SIGNALLED + signal.SIGPIPE
    return _report(end)


def _report(end: ExecEnd) -> int:
    if end.problem:
        sys.stderr.write(f"error: {end.problem}\n")
    return end.status


def _discard_output() -> None:
    """Python writes what it still holds when it ends, and would complain that nobody reads."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


@contextmanager
def _local_files(terminal: bool) -> Iterator[LocalStreams]:
    """The files of this process. A signal that ends it does so after the terminal is as it was."""
    for number in _ENDING:
        signal.signal(number, _end)
    if not terminal:
        yield LocalStreams()
        return
    before = termios.tcgetattr(0)
    resized, wake = socket.socketpair()
    with resized, wake:
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGWINCH, lambda number, frame: None)  # the wake-up is all that is needed
        try:
            tty.setraw(0, termios.TCSADRAIN)  # keeps what was typed ahead
            yield LocalStreams(size=_size, resized=resized.fileno())
        finally:
            signal.set_wakeup_fd(-1)
            with suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(0, termios.TCSADRAIN, before)


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(0)
    except OSError:
        return 80, 24
    return size.columns or 80, size.lines or 24


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(_SIGNALLED + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
