"""Keep the files that a command wrote when its agent was killed, before the working copy is removed.

The supervisor starts a process for this and does not wait: a copy may be large and the store on another disk.
The process counts as the agent of its share until it ends. When this process is killed too, the files are
left as they are.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import traceback
from typing import Dict, NoReturn, Optional

from gofer.core import files, processes, run_layout
from gofer.core.launch import NodePlace
from gofer.core.node_request import NodeRequest
from gofer.core.processes import ProcessIdentity, close_all_but
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.node.events import EventLog
from gofer.node.kept import copy_record
from gofer.node.kept.keeper import FileKeeper
from gofer.node.kept.limit import Keeping
from gofer.node.kept.tally import FileTally
from gofer.node.task import Task
from gofer.node.watch import REQUESTS
from gofer.queue.agent import AgentMessage
from gofer.queue.agent_pool import Share


class FileRecovery:
    """The recovery processes of one supervisor."""

    def __init__(self, queue_home: str) -> None:
        self._queue_home = queue_home
        self._begun: Dict[Share, int] = {}

    def start(
        self, share: Share, message: AgentMessage, request: NodeRequest, private: RunSecrets
    ) -> Optional[ProcessIdentity]:
        """Start a process that keeps the files of a share. The agent and all processes of the share must be
        dead.

        None when there is nothing to keep, or when a process was started for the share before. `message` is
        what the agent received: see `gofer.queue.active_run.ActiveRun.message`.
        """
        record = None if share in self._begun else copy_record.read(self._path(share))
        if record is None or not _was_started(str(request.store), share):
            return None
        task = Task(request, NodePlace(**message["place"]), message["args"], record.code, private)
        signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)  # requests to stop are meant for commands
        pid = os.fork()
        if pid == 0:
            _keep_and_exit(task, record, self._path(share))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS)
        self._begun[share] = pid
        return processes.identify(pid)

    def end(self, share: Share) -> None:
        """Remove the record of this share and reap its process. Idempotent."""
        pid = self._begun.pop(share, None)
        if pid is not None:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
        try:
            os.unlink(self._path(share))
        except OSError:
            pass

    def _path(self, share: Share) -> str:
        return copy_record.path_of(self._queue_home, *share)


def _was_started(store: str, share: Share) -> bool:
    try:
        names = os.listdir(os.path.join(store, run_layout.node_key(*share)))
    except OSError:
        return False
    return any(name.startswith("rank-") for name in names)


def _keep_and_exit(task: Task, record: copy_record.CopyRecord, path: str) -> NoReturn:
    """In the forked child. Nothing may return into the supervisor's code."""
    try:
        os.setsid()
        close_all_but({0, 1, 2})
        # A recovery process of an earlier, killed supervisor may still be at work.
        files.lock(path, fcntl.LOCK_EX)
        keep(task, record)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(0)


def keep(task: Task, record: copy_record.CopyRecord) -> None:
    """Keep the files as the agent would have done. Blocks; can be called again after an interruption."""
    keeping = Keeping(record.copies, None if record.tally is None else FileTally(record.tally))
    keeper = FileKeeper(task, task.place, keeping)
    keeper.resume(record)
    events = EventLog(os.path.join(task.store, run_layout.node_key(*task.place[:3])))
    try:
        keeper.finish(events.note)
    finally:
        events.close()
