"""Write down what the supervisor decided: ends of runs into the store first, then every change into the
queue.

When the store is not a folder, the uploader sends the line of an end together with the run's folder. The
queue records the end once both are in the store.

A full disk, or a store that cannot be reached for a while, delays an entry and never loses one: what could
not be written is kept and tried again. A crash in between is harmless, since the next supervisor reads the
same facts and reaches the same outcome.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import sys
import time
from collections import deque
from typing import Iterator

from gofer.core import files, run_layout, trees
from gofer.core.node_request import NodeRequest
from gofer.core.outcome import end_line
from gofer.core.queue_home import spool_folder, unsent_folder
from gofer.core.secrets import run_secrets
from gofer.core.states import State
from gofer.node import shared_copy, work_folders
from gofer.queue.database import DAMAGE, Queue, QueuedRun
from gofer.queue.uploader import Uploader, UploadResult

_STORE_PATIENCE_S = 60.0


class _Ending:
    """A run that has ended, but whose line is not in the store yet."""

    def __init__(self, entry: QueuedRun, store: str) -> None:
        self.entry = entry
        self.store = store
        self.since = time.monotonic()


class Journal:
    """Changes to entries that are not yet in the store and the queue. Also counts the open runs of each
    request.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.uploader = Uploader(queue.queue_home)
        self._changed: dict[int, QueuedRun] = {}
        self._endings: list[_Ending] = []
        self._uploading: dict[str, QueuedRun] = {}
        # Per request, the number of runs that the queue still has as open, and of runs not yet known to
        # have ended.
        self._open_runs: dict[str, int] = {}
        self._unended: dict[str, int] = {}
        self.requests: dict[str, NodeRequest] = {}
        self._private: dict[str, run_secrets.RunSecrets] = {}
        self._removals: deque[Iterator[None]] = deque()
        try:
            self._clear_left()
        except DAMAGE:
            pass  # the supervisor meets the same error when it reads the queue, and handles it there

    def _clear_left(self) -> None:
        """Remove what a supervisor left behind that was killed between the end of a request and `_forget`."""
        queue_home = self._queue.queue_home
        for folder_name in ("sealed", "work", "spool"):
            path = os.path.join(queue_home, folder_name)
            for name in os.listdir(path) if os.path.isdir(path) else ():
                request_id = name[: -len(".json")] if name.endswith(".json") else name
                if self._queue.is_over(request_id):
                    self._removals.append(remove_traces(queue_home, request_id))

    @property
    def is_written(self) -> bool:
        """Whether every change is in the queue. The uploader may still be sending run folders to a store."""
        return not self._changed and not self._endings

    @property
    def is_empty(self) -> bool:
        return self.is_written and not self._uploading and not self.is_removing

    @property
    def is_removing(self) -> bool:
        """Whether files of finished requests are still to be removed: see `remove_left`."""
        return bool(self._removals)

    def opened(self, entry: QueuedRun) -> None:
        """Count a run that was read from the queue and has not ended."""
        for counts in (self._open_runs, self._unended):
            counts[entry.request] = counts.get(entry.request, 0) + 1

    def request(self, entry: QueuedRun) -> NodeRequest:
        if entry.request not in self.requests:
            self.requests[entry.request] = self._queue.load_request(entry.request)
        return self.requests[entry.request]

    def private(self, entry: QueuedRun) -> run_secrets.RunSecrets:
        """The private values of the run. The job's own variables replace private variables of the same
        name.
        """
        if entry.request not in self._private:
            known = run_secrets.read(self._queue.queue_home, entry.request)
            environment = {**known.environment, **self.request(entry).env}
            self._private[entry.request] = known._replace(environment=environment)
        return self._private[entry.request]

    def started(self, entry: QueuedRun) -> None:
        """Have the uploader watch the run's folder, if its store is remote. Idempotent; also for adopted
        runs.
        """
        request = self.request(entry)
        if request.remote:
            self.uploader.watch(entry.id, request)

    def note(self, entry: QueuedRun) -> None:
        """Save the changed entry with the next `write` or `save`."""
        self._changed[entry.seq] = entry

    def ended(self, entry: QueuedRun) -> None:
        """Record the final state of an entry. The queue saves it only after the store has the run's line and
        files.
        """
        self._changed.pop(entry.seq, None)
        self._unended[entry.request] -= 1
        self._endings.append(_Ending(entry, str(self.request(entry).store)))

    def write(self) -> bool:
        """Write what can be written now; False when something could not be written and waits for the next
        call.
        """
        for result in self.uploader.results():
            self._arrived(result)
        self._write_ends()
        return self.save() and self.is_written

    def _write_ends(self) -> None:
        by_request: dict[str, list[_Ending]] = {}
        for ending in self._endings:
            by_request.setdefault(ending.entry.request, []).append(ending)
        self._endings = []
        for request_id, endings in by_request.items():
            data = b"".join(_line_of(one.entry) for one in endings)
            path = os.path.join(endings[0].store, run_layout.ends_key(request_id))
            try:
                # The spool of a remote run may not exist yet. A folder that is the store must exist: if a
                # command removed it, the folder must not come back almost empty.
                if self.request(endings[0].entry).remote or os.path.isdir(endings[0].store):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                files.append(path, data)
            except OSError as error:
                waited_s = time.monotonic() - endings[0].since
                if error.errno in files.FULL or waited_s < _STORE_PATIENCE_S:
                    self._endings += endings
                    continue
                _log(f"the store of {request_id} is gone: {error}")
            for one in endings:
                self._hand_over(one.entry)

    def _hand_over(self, entry: QueuedRun) -> None:
        """The line of the end is written. Save the end now, or have the uploader send the rest of the folder
        first.
        """
        request = self.request(entry)
        if not request.remote:
            self.note(entry)
            return
        self._uploading[entry.id] = entry
        self.uploader.finish(entry.id, request, is_over=not self._unended[entry.request])

    def _arrived(self, result: UploadResult) -> None:
        entry = self._uploading.pop(result.run_id, None)
        if entry is None:
            return
        if result.problem is not None:
            kept = self._keep(entry)
            words = f"its files could not be sent to the store ({result.problem}) and are in {kept}"
            entry.detail = "; ".join(one for one in (entry.detail, words) if one)
        self.note(entry)

    def _keep(self, entry: QueuedRun) -> str:
        """Move a run folder that could not be sent to a place where gofer never removes it; its path."""
        run = os.path.join(spool_folder(self._queue.queue_home, entry.request), run_layout.run_key(entry.id))
        kept = unsent_folder(self._queue.queue_home, entry.id)
        os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
        try:
            os.rename(run, kept)
        except OSError as error:
            _log(f"{run} could not be moved to {kept}: {error}")
            return run
        return kept

    def save(self) -> bool:
        """Commit every change to the queue. When that fails, as on a full disk, keep the changes; False."""
        if not self._changed:
            return True
        changed = list(self._changed.values())
        try:
            self._queue.save(changed)
        except sqlite3.OperationalError as error:
            _log(f"the queue cannot be written: {error}")
            return False
        self._changed.clear()
        for entry in changed:
            if State(entry.state).is_final:
                self._forget(entry)
        return True

    def _forget(self, entry: QueuedRun) -> None:
        """Count a run as ended. After the last run of a request, remove what only its runs needed."""
        self._open_runs[entry.request] -= 1
        if self._open_runs[entry.request]:
            return
        del self._open_runs[entry.request], self._unended[entry.request]
        self.requests.pop(entry.request, None)
        self._private.pop(entry.request, None)
        self._removals.append(remove_traces(self._queue.queue_home, entry.request))

    def remove_left(self, seconds: float) -> None:
        """Remove files of finished requests for about this long. A large working copy takes many calls, so
        that other runs need not wait for it.
        """
        until = time.monotonic() + seconds
        while self._removals:
            for _ in self._removals[0]:
                if time.monotonic() >= until:
                    return
            self._removals.popleft()


def remove_traces(queue_home: str, request_id: str) -> Iterator[None]:
    """Remove what a finished request leaves in the queue's folder, and its working copies. Idempotent.

    The private values are removed at once. The rest is removed by the returned steps.
    """
    run_secrets.remove(queue_home, request_id)
    if os.path.isdir(os.path.join(queue_home, "mounts", request_id)):
        from gofer.node.folders.unmount import clear

        clear(queue_home, request_id)  # mounts that a killed agent left
    return itertools.chain(
        shared_copy.remove_in_steps(work_folders.work_folder(queue_home, request_id)),
        work_folders.remove_in_steps(queue_home, request_id),
        trees.remove_in_steps(spool_folder(queue_home, request_id)),
    )


def _line_of(entry: QueuedRun) -> bytes:
    return end_line(entry.id, entry.row, entry.outcome, entry.attempts)


def _log(words: str) -> None:
    """Write a line into supervisor.log. A disk that is too full for the line is ignored."""
    try:
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {words}", file=sys.stderr, flush=True)
    except OSError:
        pass
