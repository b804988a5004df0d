"""The supervisor's side of the agents: start them, assign shares, receive their reports, and end what a dead
agent left running.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import time
import traceback
from typing import Collection, NamedTuple, NoReturn

from gofer.core import attempts, files, processes, run_layout
from gofer.core.processes import ProcessIdentity, close_all_but
from gofer.core.sleep import pause
from gofer.node import cgroups
from gofer.node.watch import REQUESTS
from gofer.queue.agent import CGROUP_PREFIX, AgentMessage, AgentProcess, cgroup_name

# How long an agent with nothing to do may take to end.
_PATIENCE_S = 5.0


class Share(NamedTuple):
    """One node of one attempt of one run."""

    run_id: str
    attempt: int
    node: int


class AgentReport(NamedTuple):
    """What the agent `who` reported: `started` (with the time), `done`, or `gone` when it died with the share
    unfinished.
    """

    share: Share
    who: ProcessIdentity
    what: str
    at: float = 0.0


class PooledAgent:
    """One agent, a child of this process."""

    def __init__(self, who: ProcessIdentity, connection: socket.socket) -> None:
        self.who = who
        self.connection = connection
        self.share: Share | None = None
        self.request_id: str | None = None
        self._received = b""

    def receive(self) -> list[str] | None:
        """The lines received since the last call; None when the agent is gone and every line was received."""
        try:
            data = self.connection.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        *lines, self._received = (self._received + data).split(b"\n")
        return [line.decode() for line in lines]


class AgentPool:
    """Forks agents and reuses each for the next share. Single-threaded; one pool per supervisor."""

    def __init__(self, queue_home: str) -> None:
        self.queue_home = queue_home
        self._agents: dict[int, PooledAgent] = {}
        self._cgroups = cgroups.find_parent()
        if self._cgroups is not None:
            for name in os.listdir(self._cgroups):
                if name.startswith(CGROUP_PREFIX):
                    cgroups.remove(os.path.join(self._cgroups, name))  # left by agents that were killed

    @property
    def connections(self) -> list[int]:
        """The file descriptors that become readable when `reports` has something to return."""
        return list(self._agents)

    def reserve(self, count: int) -> list[PooledAgent]:
        """`count` agents with nothing to do. Forks new agents when there are too few."""
        idle = [one for one in self._agents.values() if one.share is None][:count]
        return idle + [self._fork() for _ in range(count - len(idle))]

    def assign(self, agent: PooledAgent, share: Share, message: AgentMessage, known: AgentMessage) -> None:
        """Give an idle agent a share.

        `known` is the large part of the message. It is sent only when the agent does not have it yet.
        """
        agent.share = share
        if agent.request_id != known["request"]["id"]:
            message = {**message, **known}
            agent.request_id = known["request"]["id"]
        agent.connection.setblocking(True)
        try:
            agent.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the agent is gone; `reports` finds this out from the connection
        finally:
            agent.connection.setblocking(False)

    def reports(self) -> list[AgentReport]:
        """What agents reported since the last call, and which agents died. Does not block."""
        found = []
        for agent in list(self._agents.values()):
            lines = agent.receive()
            for line in lines or ():
                what, value = line.split()
                if agent.share is not None:
                    found.append(AgentReport(agent.share, agent.who, what, float(value)))
                if what == "done":
                    agent.share = None
            if lines is None:
                found += self._end(agent)
        return found

    def dismiss(self, keep: int) -> None:
        """End idle agents beyond `keep`."""
        idle = [one for one in self._agents.values() if one.share is None]
        for agent in idle[keep:]:
            self._end(agent)

    def _end(self, agent: PooledAgent) -> list[AgentReport]:
        del self._agents[agent.connection.fileno()]
        agent.connection.close()
        if agent.share is not None or not _ends_within(agent.who.pid, _PATIENCE_S):
            # The agent closed its connection with a share unfinished, or does not end by itself. Do not
            # wait for it.
            processes.send(agent.who, signal.SIGKILL)
            _ends_within(agent.who.pid, _PATIENCE_S)
        self._end_cgroup(agent.who)
        return [] if agent.share is None else [AgentReport(agent.share, agent.who, "gone")]

    def sweep(
        self, store: str, share: Share, who: ProcessIdentity | None, *, spared: Collection[int]
    ) -> None:
        """End every process that a dead agent left, also one in another session or process group.

        The processes `spared` work for other runs. Processes of the run's other agents on this machine are
        left to those agents. When the agent `who` is still alive, its cgroup is left alone.
        """
        if who is not None and not processes.is_alive(who):
            self._end_cgroup(who)
        sessions = set(attempts.sessions_of(store, *share))
        mark = f"GOFER_RUN_ID={share.run_id}"
        peers = [one for one in attempts.agents_beside(store, *share) if processes.is_alive(one)]

        def left(table: dict[int, processes.Stat]) -> set[int]:
            led = {pid for pid, stat in table.items() if stat.session in sessions}
            theirs = [processes.descendants(peer.pid, table) for peer in peers]
            return (
                led
                | self._orphans(table, spared)
                | processes.having_environment(mark, table).difference(*theirs)
            )

        processes.kill_until_gone(left)
        files.remove_halves(os.path.join(store, run_layout.node_key(*share)))
        for pid in self._orphans(processes.all_processes(), spared):
            _ends_within(pid, 0.0)

    def _orphans(self, table: dict[int, processes.Stat], spared: Collection[int]) -> set[int]:
        """Processes that the kernel gave to this process when their agent died. They are its only children
        that are not agents.
        """
        agents = {agent.who.pid for agent in self._agents.values()}
        return processes.descendants(os.getpid(), table, spared=agents.union(spared))

    def _end_cgroup(self, who: ProcessIdentity) -> None:
        if self._cgroups is not None:
            cgroups.kill(os.path.join(self._cgroups, cgroup_name(who)))

    def _fork(self) -> PooledAgent:
        ours, theirs = socket.socketpair()
        # The signals are blocked around the fork, so that a request to stop waits until the agent can
        # handle it.
        signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)
        pid = os.fork()
        if pid == 0:
            _run_agent(self.queue_home, theirs, self._cgroups)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS)
        theirs.close()
        ours.setblocking(False)
        who = processes.identify(pid) or ProcessIdentity(pid, 0)
        agent = self._agents[ours.fileno()] = PooledAgent(who, ours)
        return agent


def _ends_within(pid: int, timeout_s: float) -> bool:
    """Whether a child ends within the time. Reaps the child when it has ended."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() >= deadline:
            return False
        pause(0.001)


def _run_agent(queue_home: str, connection: socket.socket, cgroup_parent: str | None) -> NoReturn:
    """In the forked child. Nothing may return into the supervisor's code."""
    status = 1
    try:
        gc.disable()
        os.setsid()
        # Above all the supervisor's lock: an open copy here would keep the next supervisor from taking it.
        close_all_but({0, 1, 2, connection.fileno()})
        AgentProcess(queue_home, connection, cgroup_parent).serve()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)
