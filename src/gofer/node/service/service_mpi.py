"""`launcher: mpi` on Azure ML: the service's own mpirun starts the processes, one for each rank.

These processes are not the ranks but placeholders for them, as in gofer.node.mpi, and stay for the whole run:
the agent makes the attempts. The first process of a node forks the agent, in a session of its own. So mpirun,
which ends its processes when one fails, cannot keep the agent from writing its record.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, Dict, Mapping, NoReturn, Optional

from gofer.core import processes
from gofer.core.launch import NodePlace
from gofer.node import mpi_rank
from gofer.node.mpi import Mpirun, MpiStopped, address
from gofer.node.service.share import OF_MPIRUN, NodeShare

# SIGTERM is forwarded after this delay, so that the agent sees a failed rank before mpirun's reaction to it.
_FORWARD_S = 0.3
# Processes of one mpirun start together; a process that is not there by then was ended.
_GATHER_S = 30.0


def part(share: NodeShare) -> None:
    """Fork the agent if this is the first process of its node. Returns in the agent only: the process itself
    stays a placeholder.

    The agent gets SIGTERM when this process gets it, and when this process is gone.
    """
    first = os.getpid()
    agent = os.fork() if share.local == 0 else None
    if agent != 0:
        _stay_as_placeholder(share, agent)
    os.setsid()
    processes.end_with_parent(signal.SIGTERM)
    if os.getppid() != first:
        os.kill(os.getpid(), signal.SIGTERM)


def _stay_as_placeholder(share: NodeShare, agent: Optional[int]) -> NoReturn:
    """Stay as one of mpirun's processes until the agent of the node says with which status to end. `agent` is
    its pid if it is a child.
    """
    signal.signal(signal.SIGALRM, lambda *_: _send_term(agent))
    signal.signal(signal.SIGTERM, lambda *_: signal.setitimer(signal.ITIMER_REAL, _FORWARD_S))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    def is_needed() -> bool:
        return agent is None or os.waitpid(agent, os.WNOHANG)[0] == 0

    mpi_rank.stay(address(share.run_id, 0, share.node), is_needed)


def _send_term(pid: Optional[int]) -> None:
    try:
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass


class ServiceMpirun(Mpirun):
    """The placeholders of this node's ranks, which stay for all attempts. `gather` may be called again."""

    def __init__(self, place: NodePlace, environment: Mapping[str, str]) -> None:
        super().__init__(place._replace(attempt=0), environment, os.devnull)
        self._found: Dict[int, Dict[str, str]] = {}

    def gather(self, keep_on: Callable[[int], bool]) -> Dict[int, Dict[str, str]]:
        if not self._found:
            variables = super().gather(keep_on)
            self._found = {rank: _of_mpirun(values) for rank, values in variables.items()}
        return self._found

    def close(self) -> None:
        """Nothing is closed between attempts: see `dismiss`."""

    def dismiss(self, status: int, wait: Callable[[int], None]) -> None:
        """End all placeholders with this status, also those that have not connected yet. Blocks for 30 s at
        most.
        """
        deadline = time.monotonic() + _GATHER_S

        def keep_on(fd: int) -> bool:
            wait(fd)
            return time.monotonic() < deadline

        try:
            self.gather(keep_on)
        except MpiStopped:
            pass
        for placeholder in self._placeholders.values():
            try:
                placeholder.sendall(b"%d\n" % status)
            except OSError:
                pass  # mpirun has ended it already
            placeholder.close()
        self._placeholders.clear()

    def _start(self) -> None:
        """Nothing to do: the service has started mpirun."""

    def _check_alive(self) -> None:
        """Nothing to check: when mpirun ends, the service ends this node."""


def _of_mpirun(values: Mapping[str, str]) -> Dict[str, str]:
    return {name: value for name, value in values.items() if name.startswith(OF_MPIRUN)}
