"""The program of one run: `python -m throwaway_backend.program FOLDER RUN`, with the secrets on stdin.

It starts each node of an attempt as a child, and another attempt while the retries of the job allow it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from gofer.core import attempts, files, processes, retries, run_layout
from gofer.core.code import trees
from gofer.core.launch import NodePlace
from gofer.core.node_request import decode
from gofer.core.outcome import AttemptFields, attempt_record, end_line
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.core.states import State
from gofer.node.code import work_folders
from gofer.node.code.stage import stage
from gofer.node.folders.mapped import FolderContext, MappedFolders
from gofer.node.rendezvous.base import free_port
from gofer.node.rendezvous.one_machine import OneMachineRendezvous
from gofer.node.runner import Node
from gofer.node.task import Task
from gofer.node.watch import REQUESTS, STOP, STOP_FOR_PEER, STOP_NOW, Watch


def main() -> int:
    folder, run_id = sys.argv[1:]
    secrets = RunSecrets(**json.load(sys.stdin))
    claim = os.open(os.path.join(folder, f"{run_id}.program"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    # Requests to stop wait until the loop of the child takes them.
    signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)
    child = os.fork()
    if child:
        os.write(claim, str(processes.identify(child)).encode())
        return 0
    os.setsid()
    return _Run(folder, run_id, secrets).run()


class _Run:
    def __init__(self, folder: str, run_id: str, secrets: RunSecrets) -> None:
        self.folder, self.id = folder, run_id
        self.reader, self.writer = os.pipe()
        self.request = decode(files.read_json(os.path.join(folder, "request.json")) or {})
        self.store = str(self.request.store)
        row = run_id.removeprefix(self.request.id).removeprefix("-")
        self.row = int(row) if row else None
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environment = {**inherited, **self.request.env, **secrets.environment}
        self.secrets = secrets._replace(environment=environment)

    def run(self) -> int:
        history: list[AttemptFields] = []
        while True:
            begun, number = time.time(), len(history) + 1
            self._attempt(number)
            facts = attempts.read(self.store, self.id, number, self.request.layout.nodes)
            result = retries.judge(facts)
            history.append(attempt_record(number, result, [], begun))
            allowed, reasons = self.request.retries, self.request.retry_on
            is_stopped = self._is_stopped()
            if not retries.should_retry(history, retries=allowed, retry_on=reasons, is_cancelled=is_stopped):
                break
        end = os.path.join(self.store, run_layout.ends_key(self.id))
        os.makedirs(os.path.dirname(end), exist_ok=True)
        files.append(end, end_line(self.id, self.row, result, history))
        return 0

    def _attempt(self, number: int) -> None:
        """Run all nodes to their end. When one fails, stop the others."""
        nodes, port, children = self.request.layout.nodes, free_port(), {}
        for node in range(nodes):
            procs = self.request.layout.procs_per_node
            place = NodePlace(self.id, number, node, nodes, procs, None, ["127.0.0.1"] * nodes, port)
            child = os.fork()
            if child == 0:
                os._exit(self._node(place))
            children[child] = node
        if self._is_stopped():
            self._ask(children, self._stop_signal())
        while children:
            if signal.sigtimedwait([signal.SIGTERM], 0.02) is not None:
                self._ask(children, self._stop_signal())
            child, _ = os.waitpid(-1, os.WNOHANG)
            if child in children:
                key = run_layout.node_key(self.id, number, children.pop(child))
                record = files.read_json(os.path.join(self.store, key, run_layout.EXIT))
                if record is None or record["state"] != State.SUCCEEDED:
                    self._ask(children, STOP_FOR_PEER)

    def _ask(self, children: dict[int, int], number: int) -> None:
        for child in children:
            os.kill(child, number)

    def _is_stopped(self) -> bool:
        return os.path.exists(os.path.join(self.folder, f"{self.id}.stop"))

    def _stop_signal(self) -> int:
        with open(os.path.join(self.folder, f"{self.id}.stop")) as file:
            return STOP_NOW if json.load(file) == 0 else STOP

    def _node(self, place: NodePlace) -> int:
        """Run the share of one node, in a child process. Blocks."""
        processes.adopt_orphans()
        work = os.path.join(self.folder, f"{self.id}.{place.attempt}.{place.node}")
        code = os.path.join(work, work_folders.copy_name(self.request.code))
        os.makedirs(work)
        os.close(self.writer)  # so that the end of this program can be read from `reader`
        watch = Watch(self.reader, lambda: None)
        watch.begin()
        row = () if self.row is None else self.request.rows[self.row]
        values = dict(zip(self.request.columns, row, strict=False))
        task = Task(self.request, place, values, code, self.secrets)
        folder_context = FolderContext(self.folder, watch, set(), self.secrets.environment)
        folders = MappedFolders(self.request, self.secrets.folders, place, code, folder_context)
        folders.views_folder = work
        node = Node(
            task, watch=watch, cgroup=None, stage=stage, folders=folders, report=lambda _: None, spared=set()
        )
        node.rendezvous = OneMachineRendezvous(task.store, place, watch)
        status = node.run()
        os.chdir("/")
        trees.remove_tree(work)
        return status


if __name__ == "__main__":
    sys.exit(main())
