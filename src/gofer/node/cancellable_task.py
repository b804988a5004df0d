"""Do long work of an agent in a child process, so that the agent can handle a request to stop and end the
work.

The child reports progress in lines of JSON. It inherits neither the agent's connection to the supervisor nor
its locks.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from typing import Callable, Dict, NoReturn

from gofer.core.parallel import SendMessage
from gofer.core.processes import close_all_but
from gofer.node.watch import REQUESTS
from gofer.objects.facts import ObjectsError


class WorkFailed(Exception):
    """The work failed. The text is for the person whose run it is."""


class WorkStopped(Exception):
    """The work was ended early, because `keep_on` returned False."""


def run(
    work: Callable[[SendMessage], None], *, on_message: SendMessage, keep_on: Callable[[int], bool]
) -> None:
    """Do `work` in a child process, and wait for it. `on_message` gets the messages that the work sends.

    `keep_on(fd)` waits a moment, or until `fd` can be read. If it returns False, the child is ended at once,
    and WorkStopped is raised. WorkFailed when the work raised an error or its process was killed. This
    process must have no other threads, since it forks.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_child(work, writer)
    os.close(writer)
    try:
        os.set_blocking(reader, False)
        _listen(reader, on_message, keep_on)
    finally:
        os.close(reader)
        _end(pid)


def _listen(reader: int, on_message: SendMessage, keep_on: Callable[[int], bool]) -> None:
    heard = b""
    while keep_on(reader):
        try:
            data = os.read(reader, 65536)
        except BlockingIOError:
            continue
        if not data:
            raise WorkFailed("its process was killed")
        *lines, heard = (heard + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "failed" in message:
                raise WorkFailed(message["failed"])
            if "done" in message:
                return
            on_message(message)
    raise WorkStopped


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass  # it was reaped together with the agent's other children


def _be_child(work: Callable[[SendMessage], None], writer: int) -> NoReturn:
    """In the forked child. Nothing may return into the agent's code."""

    def send_message(message: Dict[str, object]) -> None:
        data = json.dumps(message).encode("ascii") + b"\n"
        while data:
            data = data[os.write(writer, data) :]

    try:
        _drop_inherited(writer)
        work(send_message)
        send_message({"done": True})
    except BaseException as error:
        if not isinstance(error, (WorkFailed, ObjectsError, OSError)):
            traceback.print_exc()
            sys.stderr.flush()
        send_message({"failed": _words(error)})
    finally:
        os._exit(0)


def _drop_inherited(writer: int) -> None:
    """Drop what was inherited from the agent: its signal handlers, since requests to stop are for the agent,
    and its open files, since a closed connection must mean that the agent ended.
    """
    gc.enable()
    signal.set_wakeup_fd(-1)
    for number in REQUESTS:
        signal.signal(number, signal.SIG_DFL)
    close_all_but({0, 1, 2, writer})


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or repr(error)
