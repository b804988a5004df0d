"""An agent process: takes one share of a run after another from its supervisor, and outlives it.

It lives in a cgroup of its own where the machine allows one. When its supervisor is gone it finishes the
share it has, sees to it that there is a supervisor again, and leaves.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from typing import Any

from gofer.agent import cgroups, processes, wake
from gofer.agent.launch import Place
from gofer.agent.mapped import Around, MappedFolders
from gofer.agent.modes import needs_own_copy
from gofer.agent.node import Node
from gofer.agent.pausing import pause
from gofer.agent.queue import Queue
from gofer.agent.sealed import NOTHING, Private
from gofer.agent.staging import stage
from gofer.agent.task import Task
from gofer.agent.watch import Watch


class Worker:
    """The forked child's side of one connection."""

    def __init__(self, engine: str, connection: socket.socket, cgroup_parent: str | None) -> None:
        self.engine = engine
        self._spared: set[int] = set()
        self._connection = connection
        self._incoming = connection.makefile("rb")
        self._request: dict[str, Any] = {}
        self._private = NOTHING
        self._watch = Watch(connection.fileno(), self._on_orphaned)
        self._cgroup = _join_cgroup(cgroup_parent)

    def serve(self) -> None:
        """Until the supervisor closes the connection or is gone."""
        processes.adopt_orphans()
        while True:
            line = self._next_line()
            if not line:
                break
            self._watch.begin()
            task = self._task(json.loads(line))
            folders = self._folders(task)
            node = Node(
                task,
                watch=self._watch,
                cgroup=self._cgroup,
                stage=stage,
                folders=folders,
                tell=self._tell,
                spared=self._spared,
            )
            status = node.run()
            self._watch.end()
            os.chdir("/")
            if task.args and needs_own_copy(task.request):
                folders.discard()
            self._tell(f"done {status}")
        if self._cgroup is not None:
            cgroups.leave(CGROUP_PREFIX)
            cgroups.remove(self._cgroup)
        if self._has_open_runs():
            pause(_BREATH_S)
            wake.ensure(self.engine)  # it did not leave, it was killed, and runs wait for another

    def _has_open_runs(self) -> bool:
        try:
            queue = Queue(self.engine)
        except (OSError, sqlite3.Error):
            return False
        try:
            return queue.has_open()
        except sqlite3.Error:
            return False
        finally:
            queue.close()

    def _next_line(self) -> bytes:
        """Empty when the supervisor is gone, also when it was killed in the middle of a line."""
        try:
            line = self._incoming.readline()
        except ConnectionError:
            return b""
        return line if line.endswith(b"\n") else b""

    def _task(self, message: dict[str, Any]) -> Task:
        """Requests and environments are large and the same for all rows of an array: they come once."""
        if "request" in message:
            self._request, self._private = message["request"], Private(**message["private"])
        place = Place(**message["place"])
        return Task(self._request, place, message["args"], message["code"], self._private)

    def _folders(self, task: Task) -> MappedFolders:
        around = Around(self.engine, self._watch, self._spared, task.private.environment)
        return MappedFolders(task.request, task.private.folders, task.place, task.code, around)

    def _tell(self, words: str) -> None:
        try:
            self._connection.sendall(words.encode() + b"\n")
        except OSError:
            pass  # the supervisor is gone; its successor reads the folder

    def _on_orphaned(self) -> None:
        pid = wake.replace(self.engine)
        if pid is not None:
            self._spared.add(pid)  # it is in this cgroup until it has left it


CGROUP_PREFIX = cgroups.AGENT_PREFIX
# A supervisor that cannot live must not be started over and over at the speed of the machine.
_BREATH_S = 0.3


def cgroup_name(who: processes.Identity) -> str:
    return f"{CGROUP_PREFIX}{who.pid}-{who.start}"


def _join_cgroup(parent: str | None) -> str | None:
    """Done once for each agent: the kernel takes about ten milliseconds for it."""
    me = processes.identify(os.getpid())
    if parent is None or me is None:
        return None
    path = cgroups.create(os.path.join(parent, cgroup_name(me)))
    return path if path is not None and cgroups.join(path) else None
