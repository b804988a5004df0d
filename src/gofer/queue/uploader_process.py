"""The uploader's own process: checks each run's folder every few seconds and sends what is new to its store.

The process ends with its supervisor. It keeps no records of its own: a new process lists the stores to find
out what they have.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Sequence, TypedDict

from gofer.core.queue_home import spool_folder
from gofer.core.secrets import run_secrets
from gofer.node.uploader.patience import patience_s
from gofer.node.uploader.run_folder import RunFolderUploader
from gofer.objects import open_objects
from gofer.objects.facts import ObjectsError

LOOK_S = 2.0
_SENDERS = 4


def upload_runs(queue_home: str, connection: socket.socket) -> bool:
    """Send run folders until the supervisor is gone; True when runs were left unsent. Blocks."""
    return _Process(queue_home, connection).serve()


class UploadMessage(TypedDict):
    """A run whose folder is to be sent. `ended`: the run will write nothing more. `over`: it was the last of
    its request.
    """

    run: str
    request: str
    sync: Sequence[str]
    ended: bool
    over: bool


class _Done(NamedTuple):
    """A run's folder is completely in the store, except for what `problem` names."""

    problem: str | None


class _Watched:
    """One run: the last message about it, and the work on it that is under way."""

    def __init__(self, message: UploadMessage) -> None:
        self.message = message
        self.work: Future[_Done | None] | None = None
        self.failing_since: float | None = None
        self.next_try = 0.0


class _Process:
    """Receives messages about runs, checks each run every few seconds, finishes those that ended."""

    def __init__(self, queue_home: str, connection: socket.socket) -> None:
        self._queue_home = queue_home
        self._connection = connection
        self._runs: dict[str, _Watched] = {}
        self._uploaders: dict[str, RunFolderUploader] = {}
        self._making = threading.Lock()
        self._ends_lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_SENDERS)
        self._done_read, self._done_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._received = b""

    def serve(self) -> bool:
        """Until the supervisor is gone; whether work was left."""
        while True:
            ready, _, _ = select.select([self._connection.fileno(), self._done_read], [], [], LOOK_S / 4)
            if self._done_read in ready:
                os.read(self._done_read, 4096)
            if self._connection.fileno() in ready and not self._receive():
                return bool(self._runs)
            for run_id in list(self._runs):
                self._advance(run_id, self._runs[run_id])

    def _receive(self) -> bool:
        data = self._connection.recv(65536)
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            known = self._runs.setdefault(message["run"], _Watched(message))
            known.message, known.next_try = message, 0.0
        return bool(data)

    def _advance(self, run_id: str, one: _Watched) -> None:
        if one.work is not None:
            if not one.work.done():
                return
            work, one.work = one.work, None
            self._settle(run_id, one, work)
        if run_id in self._runs and time.monotonic() >= one.next_try:
            one.next_try = time.monotonic() + LOOK_S
            one.work = self._pool.submit(self._work, one.message)
            one.work.add_done_callback(lambda _: _poke(self._done_write))

    def _work(self, message: UploadMessage) -> _Done | None:
        """Runs in a thread of the pool, at most one per run at a time. None while the run has not ended."""
        uploader = self._uploader(message["request"], message["sync"])
        if not message["ended"]:
            uploader.upload_changes(message["run"])
            uploader.outputs.upload_changes(message["run"])
            return None
        problem = uploader.finish(message["run"])
        with self._ends_lock:  # the rows of an array share one list
            uploader.send_ends(message["request"], is_over=message["over"])
        return _Done(problem)

    def _uploader(self, request_id: str, sync: Sequence[str]) -> RunFolderUploader:
        with self._making:
            if request_id not in self._uploaders:
                private = run_secrets.read(self._queue_home, request_id)
                if private.store is None:
                    raise ObjectsError(403, "", "the credentials of the store are no longer on this machine")
                spool = spool_folder(self._queue_home, request_id)
                self._uploaders[request_id] = RunFolderUploader(
                    spool, open_objects(private.store), sync=sync, mask=private.mask()
                )
            return self._uploaders[request_id]

    def _settle(self, run_id: str, one: _Watched, work: Future[_Done | None]) -> None:
        error = work.exception()
        if error is None:
            one.failing_since = None
            done = work.result()
            if done is not None:
                self._report(run_id, done.problem)
            return
        now = time.monotonic()
        one.failing_since = one.failing_since or now
        if one.message["ended"] and now - one.failing_since > patience_s(error):
            self._report(run_id, str(error) if isinstance(error, (ObjectsError, OSError)) else repr(error))

    def _report(self, run_id: str, problem: str | None) -> None:
        message = self._runs.pop(run_id).message
        if message["over"]:
            self._uploaders.pop(message["request"], None)
        line = json.dumps({"run_id": run_id, "problem": problem}).encode() + b"\n"
        self._connection.sendall(line)


def _poke(fd: int) -> None:
    try:
        os.write(fd, b"x")
    except BlockingIOError:
        pass  # the pipe is full, so the reader wakes anyway
