"""The queue of the machine on which this code runs, called by gofer itself or by the server of an SSH
connection."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Dict, List, Optional

from gofer.core import files, gpus, processes
from gofer.core.queue_home import full_path
from gofer.core.secrets import run_secrets
from gofer.core.states import State
from gofer.node import memory
from gofer.queue import waiting_reasons, wake
from gofer.queue.database import Queue, RequestFields
from gofer.queue.waiting_reasons import WaitingFacts
from gofer.remote.api import ALL_GPUS, LogEnd, MachineFacts, QueueAnswer, RequestedRun, SupervisorStatus

# A screen shows about as many runs.
_MOST_EXPLAINED = 50


class LocalQueue:
    """Implements QueueApi, which has the contract of each method. `queue_home` is the folder of the queue.
    Calls create the folder where they need it. sqlite3.Error when the queue cannot be read or written.
    """

    def __init__(self, queue_home: str) -> None:
        self._home = full_path(queue_home)

    def facts(self) -> MachineFacts:
        with closing(Queue(self._home)) as queue:
            counts = queue.counts()
            running = [run for run in queue.load_open() if run.state != State.QUEUED]
            layouts = [queue.load_request(run.request).layout for run in running]
        return MachineFacts(
            host=os.uname().nodename,
            cpus=len(os.sched_getaffinity(0)),
            cpus_busy=sum(it.nodes * it.procs_per_node * it.cpus_per_proc for it in layouts),
            memory_mib=memory.limit_kib() >> 10,
            gpus=gpus.count(),
            gpus_busy=sum(len(node) for run in running for node in run.gpus),
            usage=gpus.sample(),
            counts=counts,
            queue_home=self._home,
        )

    def keep_secrets(self, run_id: str, values: run_secrets.RunSecrets, inherit: bool) -> None:
        if inherit:
            # At the end of an SSH connection, GOFER_ and SSH_ variables describe the connection, not a run.
            own = {key: value for key, value in os.environ.items() if not key.startswith(("GOFER_", "SSH_"))}
            values = values._replace(environment={**own, **values.environment})
        run_secrets.write(self._home, run_id, values)

    def abandoned_secrets(self) -> Dict[str, str]:
        return run_secrets.abandoned(self._home)

    def remove_secrets(self, paths: List[str]) -> None:
        for path in paths:
            files.remove(path)

    def add(self, body: RequestFields, runs: List[RequestedRun]) -> bool:
        # The secrets are confirmed before the run is added: unconfirmed ones may be removed as abandoned.
        run_secrets.confirm(self._home, body["id"])
        with closing(Queue(self._home)) as queue:
            queue.add(_completed(body), runs)
        return wake.ensure(self._home) is not None

    def observe(self, ids: List[str]) -> QueueAnswer:
        with closing(Queue(self._home)) as queue:
            found = queue.observe(ids)
        is_open = any(run.state in ("queued", "starting", "running") for run in found)
        started = is_open and wake.ensure(self._home) is not None
        queued = [run.id for run in found if run.state == State.QUEUED][:_MOST_EXPLAINED]
        return QueueAnswer(started, found, waiting_reasons.waiting_runs(self._home, queued) if queued else {})

    def cancel(self, ids: List[str], grace_s: Optional[float]) -> bool:
        with closing(Queue(self._home)) as queue:
            queue.ask_cancel(ids, grace_s)
        return wake.ensure(self._home) is not None

    def log_end(self) -> LogEnd:
        log = os.path.join(self._home, "supervisor.log")
        return LogEnd(log, "".join(files.tail_lines(log, 1)))

    def supervisor(self) -> SupervisorStatus:
        try:
            with open(os.path.join(self._home, "supervisor.lock")) as file:
                # The file is empty between its creation and the supervisor's first write.
                pid = int(file.read() or 0)
        except (OSError, ValueError):
            pid = 0
        found = processes.stat(pid) if pid else None
        return SupervisorStatus(wake.poke(self._home), pid if found else None, found.state if found else None)

    def waiting(self, run_id: str) -> Optional[WaitingFacts]:
        return waiting_reasons.waiting(self._home, run_id)

    def shell(
        self, run_id: str, command: List[str], terminal: bool, node: Optional[int]
    ) -> Optional[List[str]]:
        from gofer.node import run_shell  # it needs much that no other call does

        return run_shell.program(run_id, command, terminal=terminal, node=node)


def _completed(body: RequestFields) -> RequestFields:
    """The request with the values that only this machine knows."""
    completed: RequestFields = {**body, "store": full_path(body["store"])}
    if body["gpus"] == ALL_GPUS:
        completed["gpus"] = gpus.count()
        completed["block"] = max(completed["gpus"], 1)
    return completed
