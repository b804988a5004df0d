"""The journal writes the supervisor's decisions: the end of a run goes to the store first, as one line of
`ends.jsonl`, and then the changed entry of the run goes to the queue.

When the store is not a folder, the uploader sends the end line and the run's folder, and the queue records
the end after the upload. Files that could not be uploaded are kept in the queue's folder.

A full disk delays an entry, and never loses one: what could not be written is kept and tried again. A store
that is gone for longer than `_STORE_RETRY_S` gets no end line; the queue and the log of the supervisor have
the end then. A crash between two writes is harmless: the next supervisor reads the same facts and reaches the
same outcome.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import sys
import time
from collections import deque
from typing import Iterator

from gofer.core import files, run_layout
from gofer.core.code import trees
from gofer.core.node_request import NodeRequest
from gofer.core.outcome import end_line
from gofer.core.queue_home import spool_folder, unsent_folder
from gofer.core.secrets import run_secrets
from gofer.core.states import State
from gofer.node.code import shared_copy, work_folders
from gofer.queue import bare_folder
from gofer.queue.database import DAMAGE, Queue, QueuedRun
from gofer.queue.uploader import Uploader, UploadResult

# After this time the end line for a store that cannot be written is given up, and logged.
_STORE_RETRY_S = 60.0


class _Ending:
    """An ended run whose end line is not in the store yet."""

    def __init__(self, entry: QueuedRun, store: str) -> None:
        self.entry = entry
        self.store = store
        self.since = time.monotonic()


class Journal:
    """Holds changed entries until the store and the queue have them; an entry is a run in the queue. Also
    counts the open runs of each request: a request is what was submitted at once, a run or an array.

    For the supervisor's thread.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.uploader = Uploader(queue.queue_home)
        self._changed: dict[int, QueuedRun] = {}
        self._endings: list[_Ending] = []
        self._uploading: dict[str, QueuedRun] = {}
        # Results of uploads whose files could not be kept yet, as on a full disk.
        self._unkept: list[UploadResult] = []
        self._logged: set[str] = set()
        # Runs of each request whose end is not saved in the queue.
        self._open_runs: dict[str, int] = {}
        # Runs of each request whose end is not known to the supervisor.
        self._unended: dict[str, int] = {}
        self.requests: dict[str, NodeRequest] = {}
        self._private: dict[str, run_secrets.RunSecrets] = {}
        self._removals: deque[Iterator[None]] = deque()
        try:
            self._clear_left()
        except DAMAGE:
            pass  # the supervisor meets the same error when it reads the queue, and handles it there

    def _clear_left(self) -> None:
        """Remove files of finished requests. A supervisor leaves them if it is killed before `_forget`."""
        queue_home = self._queue.queue_home
        for folder_name in ("sealed", "work", "spool"):
            path = os.path.join(queue_home, folder_name)
            for name in os.listdir(path) if os.path.isdir(path) else ():
                request_id = name[: -len(".json")] if name.endswith(".json") else name
                if self._queue.is_over(request_id):
                    self._removals.append(remove_traces(queue_home, request_id))

    @property
    def is_written(self) -> bool:
        """Whether the journal waits for no write of its own. The uploader may still send folders of ended
        runs, whose ends the queue gets afterwards.
        """
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
        """The secrets and private variables of the run. Variables of the job replace private variables of the
        same name.
        """
        if entry.request not in self._private:
            known = run_secrets.read(self._queue.queue_home, entry.request)
            environment = {**known.environment, **self.request(entry).env}
            self._private[entry.request] = known._replace(environment=environment)
        return self._private[entry.request]

    def started(self, entry: QueuedRun) -> None:
        """Start the upload of the run's folder, if its store is remote. Idempotent. Also for a run that an
        earlier supervisor started.
        """
        request = self.request(entry)
        if request.remote:
            self.uploader.watch(entry.id, request)

    def note(self, entry: QueuedRun) -> None:
        """Save the changed entry with the next `write` or `save`."""
        self._changed[entry.seq] = entry

    def ended(self, entry: QueuedRun) -> None:
        """Record the final state of an entry. The queue saves the state after the store has the end line and
        files of the run, or after they were given up or kept: see the module.
        """
        self._changed.pop(entry.seq, None)
        self._unended[entry.request] -= 1
        self._endings.append(_Ending(entry, str(self.request(entry).store)))

    def write(self) -> bool:
        """Write all changes that can be written now. Blocks on the disk. False when a change waits for the
        next call.
        """
        unkept, self._unkept = self._unkept, []
        for result in (*unkept, *self.uploader.results()):
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
                # For a remote store, `store` is the spool folder, which is created when absent. A store that
                # is a folder is never created here: one that a command removed must not come back almost
                # empty.
                if self.request(endings[0].entry).remote or os.path.isdir(endings[0].store):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                files.append(path, data)
            except OSError as error:
                waited_s = time.monotonic() - endings[0].since
                if error.errno in files.FULL or waited_s < _STORE_RETRY_S:
                    self._endings += endings
                    continue
                _log(f"the store of {request_id} is gone: {error}")
            for one in endings:
                self._hand_over(one.entry)

    def _hand_over(self, entry: QueuedRun) -> None:
        """Save the end now if the store is a folder. Otherwise the uploader sends the run's folder first."""
        request = self.request(entry)
        if not request.remote:
            self.note(entry)
            return
        self._uploading[entry.id] = entry
        self.uploader.finish(entry.id, request, is_over=not self._unended[entry.request])

    def _arrived(self, result: UploadResult) -> None:
        entry = self._uploading.get(result.run_id)
        if entry is None:
            return
        if result.problem is not None:
            try:
                kept = self._keep(entry)
            except OSError as error:
                if entry.id not in self._logged:
                    self._logged.add(entry.id)
                    _log(f"the files of {entry.id} could not be saved, and gofer tries again: {error}")
                self._unkept.append(result)
                return
            words = f"its files could not be sent to the store ({result.problem}) and are in {kept}"
            entry.detail = "; ".join(one for one in (entry.detail, words) if one)
        del self._uploading[entry.id]
        self._logged.discard(entry.id)
        self.note(entry)

    def _keep(self, entry: QueuedRun) -> str:
        """Move a run folder that could not be sent to a place where gofer never removes it; its path. OSError
        when the folder cannot be moved. Idempotent.
        """
        run = os.path.join(spool_folder(self._queue.queue_home, entry.request), run_layout.run_key(entry.id))
        kept = unsent_folder(self._queue.queue_home, entry.id)
        if os.path.lexists(run):
            os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
            os.rename(run, kept)
        return kept

    def save(self) -> bool:
        """Commit every change to the queue. False when the queue cannot be written, as on a full disk; the
        changes are kept then.
        """
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
        """Count a run as ended. After the last run of a request, schedule the removal of its files."""
        request = self.request(entry)
        if entry.row is not None and not request.remote and _is_plain_success(entry):
            bare_folder.remove(str(request.store), entry.id)
        self._open_runs[entry.request] -= 1
        if self._open_runs[entry.request]:
            return
        del self._open_runs[entry.request], self._unended[entry.request]
        self.requests.pop(entry.request, None)
        self._private.pop(entry.request, None)
        self._removals.append(remove_traces(self._queue.queue_home, entry.request))

    def remove_left(self, seconds: float) -> None:
        """Remove files of finished requests for about this many seconds. A large working copy takes several
        calls, so that other runs need not wait.
        """
        until = time.monotonic() + seconds
        while self._removals:
            for _ in self._removals[0]:
                if time.monotonic() >= until:
                    return
            self._removals.popleft()


def remove_traces(queue_home: str, request_id: str) -> Iterator[None]:
    """Remove what a finished request leaves in the queue's folder, and its working copies. Idempotent.

    The secrets are removed and mounts are ended at once. The returned steps remove the rest.
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


def _is_plain_success(entry: QueuedRun) -> bool:
    return entry.state == State.SUCCEEDED and len(entry.attempts) == 1


def _line_of(entry: QueuedRun) -> bytes:
    return end_line(entry.id, entry.row, entry.outcome, entry.attempts)


def _log(words: str) -> None:
    """Write a line into supervisor.log. A disk that is too full for the line is ignored."""
    try:
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {words}", file=sys.stderr, flush=True)
    except OSError:
        pass
