"""The agent processes of one machine: fork them, find the ones an earlier supervisor left, end what is left over."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from typing import Callable, Dict, List, NamedTuple, NoReturn, Optional, Set

from gofer.agent import attempts, cgroups, checkout, locks, processes, wake
from gofer.agent.node import Node, Task


class Share(NamedTuple):
    """One node of one attempt of one run, as a name."""

    run_id: str
    attempt: int
    node: int

    @property
    def lock(self) -> str:
        return f"{self.run_id}/{self.attempt}/{self.node}"


class Report(NamedTuple):
    """An agent says that its ranks run."""

    run_id: str
    at: float


class Crew:
    """Forks agents and knows which are alive. Single-threaded, one per supervisor."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self._lock_file = os.path.join(engine, "agents.lock")
        self._children: Dict[int, Share] = {}
        self.reports, self._report_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._alive_read, self._alive_write = os.pipe2(os.O_CLOEXEC)
        self._cgroups = cgroups.find_parent()

    def cgroup(self, share: Share) -> Optional[str]:
        if self._cgroups is None:
            return None
        return os.path.join(self._cgroups, f"gofer-{share.run_id}-{share.attempt}-{share.node}")

    def start(self, share: Share, make_task: Callable[[Optional[str]], Task]) -> bool:
        """Fork an agent for this share; False when one is alive already."""
        lock = locks.hold(self._lock_file, share.lock)
        if lock is None:
            return False
        pid = os.fork()
        if pid == 0:
            self._be_agent(share, lock, make_task)
        os.close(lock)
        self._children[pid] = share
        return True

    def is_alive(self, share: Share) -> bool:
        return share in self._children.values() or locks.is_held(self._lock_file, share.lock)

    def reap(self) -> List[Share]:
        """The shares whose agents, children of this process, have ended since the last call."""
        ended = []
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            share = self._children.pop(pid, None)
            if share is not None:
                ended.append(share)
        return ended

    def read_reports(self) -> List[Report]:
        """What agents have said since the last call."""
        data = b""
        while True:
            try:
                part = os.read(self.reports, 65536)
            except BlockingIOError:
                break
            data += part
        found = []
        for line in data.decode().splitlines():
            run_id, at = line.split()
            found.append(Report(run_id, float(at)))
        return found

    def signal(self, store: str, share: Share, number: int) -> None:
        """Signal the agent of a share; nothing happens when it is gone or has not said its pid yet."""
        for pid, known in self._children.items():
            if known == share:
                os.kill(pid, number)
                return
        who = attempts.agent_of(store, *share)
        if who is not None:
            processes.send(who, number)

    def sweep(self, store: str, share: Share) -> None:
        """End every process that a dead agent left, however far it ran away."""
        path = self.cgroup(share)
        if path is not None:
            cgroups.kill(path)
        sessions = set(attempts.sessions_of(store, *share))
        mark = f"GOFER_RUN_ID={share.run_id}"

        def left(table: Dict[int, processes.Stat]) -> set[int]:
            led = {pid for pid, stat in table.items() if stat.session in sessions}
            return led | processes.having_environment(mark, table)

        processes.kill_until_gone(left)

    # -- in the forked child

    def _be_agent(self, share: Share, lock: int, make_task: Callable[[Optional[str]], Task]) -> NoReturn:
        status = 1
        try:
            gc.disable()
            os.setsid()
            # Above all the supervisor's own lock: held here, it would keep a successor out.
            _close_all_but({0, 1, 2, lock, self._report_write, self._alive_read})
            path = self.cgroup(share)
            task = make_task(path and cgroups.create(path))
            node = Node(
                task,
                stage=_stage,
                on_started=lambda at: self._report(share, at),
                on_orphaned=lambda: wake.ensure(self.engine),
                alive_fd=self._alive_read,
            )
            status = node.run()
        except BaseException:  # nothing may return into the supervisor's code
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(status)

    def _report(self, share: Share, at: float) -> None:
        if share.node == 0:
            try:
                os.write(self._report_write, f"{share.run_id} {at!r}\n".encode())
            except OSError:
                pass  # the supervisor is gone; its successor reads the folder


def _stage(task: Task) -> None:
    snapshot = task.request.get("snapshot")
    if snapshot is None:
        os.makedirs(task.code, exist_ok=True)
    else:
        checkout.restore(task.store, snapshot, task.code)


def _close_all_but(kept: Set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself


def ignore_signals() -> None:
    """A supervisor outlives the terminal's signals; agents and ranks set their own."""
    for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(sig, signal.SIG_IGN)
