"""Long work of an agent, done by a child process: the agent can hear a request to stop meanwhile, and end it.

The child says what it has done in lines of JSON. It holds nothing of the agent's: not its connection to the
supervisor, not its locks.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from typing import Any, Callable, Dict, NoReturn

from gofer.core.parallel import Say
from gofer.node.watch import REQUESTS
from gofer.objects.facts import ObjectsError


class ChoreFailed(Exception):
    """The work could not be done; in words for the person whose run it is."""


class ChoreStopped(Exception):
    """The work was ended before it was done, because `keep_on` said so."""


def do(work: Callable[[Say], None], *, hear: Say, keep_on: Callable[[int], bool]) -> None:
    """Do `work` in a child, and return when it is done; what it says goes to `hear`.

    `keep_on` waits for a while, no longer than until the descriptor it is given can be read; False ends the
    child at once. ChoreStopped then, ChoreFailed when the work raised or its process was killed. Only where
    this process has no other threads.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_child(work, writer)
    os.close(writer)
    try:
        os.set_blocking(reader, False)
        _listen(reader, hear, keep_on)
    finally:
        os.close(reader)
        _end(pid)


def _listen(reader: int, hear: Say, keep_on: Callable[[int], bool]) -> None:
    heard = b""
    while keep_on(reader):
        try:
            data = os.read(reader, 65536)
        except BlockingIOError:
            continue
        if not data:
            raise ChoreFailed("its process was killed")
        *lines, heard = (heard + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "failed" in message:
                raise ChoreFailed(message["failed"])
            if "done" in message:
                return
            hear(message)
    raise ChoreStopped


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass  # it was collected with the agent's other children


def _be_child(work: Callable[[Say], None], writer: int) -> NoReturn:
    """Nothing may return into the agent's code."""

    def say(message: Dict[str, Any]) -> None:
        data = json.dumps(message).encode("ascii") + b"\n"
        while data:
            data = data[os.write(writer, data) :]

    try:
        _let_go(writer)
        work(say)
        say({"done": True})
    except BaseException as error:
        if not isinstance(error, (ChoreFailed, ObjectsError, OSError)):
            traceback.print_exc()
            sys.stderr.flush()
        say({"failed": _words(error)})
    finally:
        os._exit(0)


def _let_go(writer: int) -> None:
    """A request to stop is the agent's to hear, and the end of its connection must mean the agent's end."""
    from gofer.core.processes import close_all_but

    gc.enable()
    signal.set_wakeup_fd(-1)
    for number in REQUESTS:
        signal.signal(number, signal.SIG_DFL)
    close_all_but({0, 1, 2, writer})


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or repr(error)
