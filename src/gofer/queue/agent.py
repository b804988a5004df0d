"""An agent process: does one share of a run after another for its supervisor, and outlives the supervisor.

The agent has a cgroup of its own where the machine allows one. When the supervisor is gone, the agent
finishes its share, makes sure that a supervisor runs again, and ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
from typing import Any, ContextManager, Dict, TypedDict

from gofer.core import node_request, processes
from gofer.core.launch import NodePlace
from gofer.core.node_request import NodeLayout, NodeRequest
from gofer.core.secrets.run_secrets import NOTHING, RunSecrets
from gofer.core.sleep import pause
from gofer.node import cgroups
from gofer.node.code import shared_copy, work_folders
from gofer.node.code.row_folders import RowFolders
from gofer.node.code.stage import stage
from gofer.node.folders.mapped import FolderContext, MappedFolders
from gofer.node.kept import copy_record
from gofer.node.kept.keeper import KEPT_BYTES
from gofer.node.kept.limit import Keeping
from gofer.node.kept.tally import FileTally
from gofer.node.packages.cache import folder_in
from gofer.node.rendezvous.folder import FolderRendezvous
from gofer.node.rendezvous.one_machine import OneMachineRendezvous
from gofer.node.runner import Node
from gofer.node.task import Task
from gofer.node.watch import Watch
from gofer.queue import wake
from gofer.queue.database import Queue


class AgentMessage(TypedDict, total=False):
    """What the supervisor sends for one share. `request` (gofer.core.node_request) and `private` (the fields
    of RunSecrets) are left out when the agent has them already; `place` are the fields of NodePlace.
    """

    request: Dict[str, Any]
    private: Dict[str, Any]
    place: Dict[str, Any]
    args: Dict[str, str]
    code: str


class AgentProcess:
    """The forked child's side of one connection."""

    def __init__(self, queue_home: str, connection: socket.socket, cgroup_parent: str | None) -> None:
        self.queue_home = queue_home
        self._spared: set[int] = set()
        self._connection = connection
        self._incoming = connection.makefile("rb")
        self._request = NodeRequest("", NodeLayout())
        self._private = NOTHING
        self._watch = Watch(connection.fileno(), self._on_orphaned)
        self._cgroup = _join_cgroup(cgroup_parent)
        self._rows = RowFolders()

    def serve(self) -> None:
        """Do shares until the supervisor closes the connection or is gone. Blocks."""
        processes.adopt_orphans()
        while True:
            line = self._next_line()
            if not line:
                break
            self._watch.begin()
            task = self._task(json.loads(line))
            status = self._run_share(task) if task.request.elastic is None else self._run_elastic(task)
            self._report(f"done {status}")
        if self._cgroup is not None:
            cgroups.leave(CGROUP_PREFIX)
            cgroups.remove(self._cgroup)
        if self._has_open_runs():
            pause(_RESTART_PAUSE_S)
            wake.ensure(self.queue_home)  # runs still wait, so the supervisor was killed

    def _run_share(self, task: Task) -> int:
        node = self._node(task)
        with self._copies_in_use(node.task):
            status = node.run()
        node.rendezvous.leave()
        self._watch.end()
        os.chdir("/")
        if node.rows is not None:
            node.rows.left(node.changes) if node.is_clear else node.rows.abandon()
        return status

    def _run_elastic(self, task: Task) -> int:
        """Take part in an elastic run until it is over. Its modules are loaded only where there is one."""
        from gofer.queue.elastic_share import run_share

        with self._copies_in_use(task):
            status = run_share(task, self._node_in_child, self._watch, self._spared, self._report)
        self._watch.end()
        return status

    def _node_in_child(self, task: Task, watch: Watch) -> Node:
        """The node of one generation, in a child of this process."""
        self._watch, self._spared, self._cgroup = watch, set(), None
        self._report = lambda words: None  # type: ignore[method-assign]
        return self._node(task)

    def _node(self, task: Task) -> Node:
        rows = self._rows if task.args else None
        own, link = task.code, shared_copy.link_to(self._work_folder(task), task.code)
        task = shared_copy.assign(task) if rows is None else rows.assign(task)
        fetch = stage if rows is None else rows.fetch
        node = Node(
            task,
            watch=self._watch,
            cgroup=self._cgroup,
            stage=fetch if rows is not None or task.code == own else shared_copy.stage_with(link, stage),
            folders=self._folders(task),
            report=self._report,
            spared=self._spared,
        )
        kind = FolderRendezvous if task.spans else OneMachineRendezvous
        node.rendezvous = kind(task.store, task.place, self._watch)
        node.rows = rows
        node.package_cache = folder_in(self.queue_home)
        tally = None if rows is None else FileTally(os.path.join(self._work_folder(task), KEPT_BYTES))
        record = copy_record.path_of(self.queue_home, *task.place[:3])
        copies = tuple(work_folders.kept_folders(self.queue_home, task.code))
        node.keeping = Keeping(copies, tally, record)
        return node

    def _has_open_runs(self) -> bool:
        try:
            queue = Queue(self.queue_home)
        except (OSError, sqlite3.Error):
            return False
        try:
            return queue.has_open()
        except sqlite3.Error:
            return False
        finally:
            queue.close()

    def _next_line(self) -> bytes:
        """The next line from the supervisor. Empty when the supervisor is gone, even in the middle of a
        line.
        """
        try:
            line = self._incoming.readline()
        except ConnectionError:
            return b""
        return line if line.endswith(b"\n") else b""

    def _task(self, message: AgentMessage) -> Task:
        """The share that a message describes. The request and the private values are large and the same for
        all rows of an array, so the supervisor sends them only once.
        """
        request, private = message.get("request"), message.get("private")
        if request is not None and private is not None:
            self._request = node_request.decode(request)
            self._private = RunSecrets(**private)
        place = NodePlace(**message["place"])
        return Task(self._request, place, message["args"], message["code"], self._private)

    def _folders(self, task: Task) -> MappedFolders:
        folder_context = FolderContext(self.queue_home, self._watch, self._spared, task.private.environment)
        folders = MappedFolders(task.request, task.private.folders, task.place, task.code, folder_context)
        folders.views_folder = self._work_folder(task)
        return folders

    def _work_folder(self, task: Task) -> str:
        return work_folders.work_folder(self.queue_home, task.request.id)

    def _copies_in_use(self, task: Task) -> ContextManager[None]:
        copies = os.path.dirname(os.path.dirname(task.code))
        is_away = work_folders.is_away(self.queue_home, copies)
        return work_folders.held(copies) if is_away else contextlib.nullcontext()

    def _report(self, words: str) -> None:
        try:
            self._connection.sendall(words.encode() + b"\n")
        except OSError:
            pass  # the supervisor is gone; the next one reads the run folder

    def _on_orphaned(self) -> None:
        pid = wake.replace(self.queue_home)
        if pid is not None:
            self._spared.add(pid)  # the new supervisor starts inside this agent's cgroup and then leaves it


CGROUP_PREFIX = cgroups.AGENT_PREFIX
# A wait before a new supervisor is started: one that fails at once must not be restarted in a busy loop.
_RESTART_PAUSE_S = 0.3


def cgroup_name(who: processes.ProcessIdentity) -> str:
    return f"{CGROUP_PREFIX}{who.pid}-{who.start}"


def _join_cgroup(parent: str | None) -> str | None:
    """Join a new cgroup; its path, or None. Called once per agent, since the kernel needs about 10 ms for
    it.
    """
    me = processes.identify(os.getpid())
    if parent is None or me is None:
        return None
    path = cgroups.create(os.path.join(parent, cgroup_name(me)))
    return path if path is not None and cgroups.join(path) else None
