"""The process that brings run folders to object stores, and its supervisor's handle on it.

It is told which runs to watch and which have ended. It may be killed at any moment: its supervisor starts another and
tells it the same again, and what the store has already tells the new one where to go on.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, NamedTuple, NoReturn

from gofer.agent import sealed
from gofer.agent.active import spool_folder
from gofer.agent.crew import close_all_but
from gofer.agent.mirror import Mirror
from gofer.agent.objects import ObjectsError, open_objects

LOOK_S = 2.0
PATIENCE_S = 600.0
_SENDERS = 8


class Flushed(NamedTuple):
    """A run's folder is in its store for good, or (with `words`) cannot be brought there."""

    run_id: str
    words: str | None


class Mirroring:
    """One process for all runs whose store is not a folder; started when the first such run starts."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._connection: socket.socket | None = None
        self._pid = 0
        self._heard = b""
        self._told: dict[str, dict[str, Any]] = {}

    @property
    def connections(self) -> list[int]:
        return [] if self._connection is None else [self._connection.fileno()]

    def watch(self, run_id: str, request_id: str) -> None:
        """Send what the run writes, from now on."""
        self._tell({"run": run_id, "request": request_id, "ended": False, "over": False})

    def finish(self, run_id: str, request_id: str, *, is_over: bool) -> None:
        """The run has ended, and its line is in the list of ends; `is_over`: as the last of its request."""
        self._tell({"run": run_id, "request": request_id, "ended": True, "over": is_over})

    def news(self) -> list[Flushed]:
        """What has become of finished runs since the last call."""
        if self._connection is None:
            return []
        try:
            data = self._connection.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._start_again()
            return []
        *lines, self._heard = (self._heard + data).split(b"\n")
        found = [Flushed(**json.loads(line)) for line in lines]
        for one in found:
            self._told.pop(one.run_id, None)
        return found

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            os.waitpid(self._pid, 0)

    def _tell(self, message: dict[str, Any]) -> None:
        self._told[message["run"]] = message
        if self._connection is None:
            self._start()
        else:
            self._send(message)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            _be_mirror(self._engine, theirs)
        theirs.close()
        ours.setblocking(False)
        self._connection, self._pid, self._heard = ours, pid, b""
        for message in self._told.values():
            self._send(message)

    def _start_again(self) -> None:
        self.close()
        time.sleep(0.05)  # a process that dies at once must not be forked as fast as it dies
        self._start()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._connection is not None
        self._connection.setblocking(True)
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # it is gone, which `news` will find
        finally:
            self._connection.setblocking(False)


class _Watched:
    """One run: its mirror, and the work on it that is under way."""

    def __init__(self, message: dict[str, Any], mirror: Mirror) -> None:
        self.message = message
        self.mirror = mirror
        self.work: Future[None] | None = None
        self.failing_since: float | None = None
        self.next_try = 0.0


class _Process:
    """The forked side: hears about runs, looks at each every few seconds, finishes those that ended."""

    def __init__(self, engine: str, connection: socket.socket) -> None:
        self._engine = engine
        self._connection = connection
        self._runs: dict[str, _Watched] = {}
        self._ends: dict[str, tuple[Mirror, threading.Lock]] = {}
        self._pool = ThreadPoolExecutor(_SENDERS)
        self._done_read, self._done_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._heard = b""

    def serve(self) -> None:
        """Until the supervisor is gone."""
        while True:
            ready, _, _ = select.select([self._connection, self._done_read], [], [], LOOK_S / 2)
            if self._done_read in ready:
                os.read(self._done_read, 4096)
            if self._connection in ready and not self._hear():
                return
            for run_id in list(self._runs):
                self._advance(run_id, self._runs[run_id])

    def _hear(self) -> bool:
        data = self._connection.recv(65536)
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            known = self._runs.get(message["run"])
            if known is None:
                known = self._runs[message["run"]] = _Watched(message, self._mirror(message["request"]))
            known.message = message
            known.next_try = 0.0
        return bool(data)

    def _mirror(self, request_id: str) -> Mirror:
        spec = sealed.read_store(self._engine, request_id)
        return Mirror(spool_folder(self._engine, request_id), open_objects(spec["store"]), sync=spec["sync"])

    def _advance(self, run_id: str, one: _Watched) -> None:
        if one.work is not None:
            if not one.work.done():
                return
            error, one.work = one.work.exception(), None
            self._settle(run_id, one, error)
        if run_id in self._runs and time.monotonic() >= one.next_try:
            one.next_try = time.monotonic() + LOOK_S
            one.work = self._pool.submit(self._work(run_id, one))
            one.work.add_done_callback(lambda _: os.write(self._done_write, b"x"))

    def _work(self, run_id: str, one: _Watched) -> Callable[[], None]:
        message = dict(one.message)

        def work() -> None:
            if not message["ended"]:
                one.mirror.look(run_id)
                return
            one.mirror.finish(run_id)
            ends, lock = self._ends_of(message["request"])
            with lock:
                ends.send_ends(message["request"], is_over=message["over"])
            one.message["flushed"] = True

        return work

    def _ends_of(self, request_id: str) -> tuple[Mirror, threading.Lock]:
        """The ends of all rows of an array go through one mirror, one at a time."""
        if request_id not in self._ends:
            self._ends[request_id] = (self._mirror(request_id), threading.Lock())
        return self._ends[request_id]

    def _settle(self, run_id: str, one: _Watched, error: BaseException | None) -> None:
        now = time.monotonic()
        if error is None:
            one.failing_since = None
            if one.message.get("flushed"):
                self._report(run_id, None)
            return
        one.failing_since = one.failing_since or now
        one.next_try = now + LOOK_S
        if one.message["ended"] and now - one.failing_since > PATIENCE_S:
            self._report(run_id, str(error) if isinstance(error, (ObjectsError, OSError)) else repr(error))

    def _report(self, run_id: str, words: str | None) -> None:
        del self._runs[run_id]
        line = json.dumps({"run_id": run_id, "words": words}).encode() + b"\n"
        self._connection.sendall(line)


def _be_mirror(engine: str, connection: socket.socket) -> NoReturn:
    """In the forked child. Nothing may return into the supervisor's code."""
    status = 1
    try:
        gc.disable()
        os.setsid()
        signal.set_wakeup_fd(-1)
        close_all_but({0, 1, 2, connection.fileno()})
        _Process(engine, connection).serve()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)
