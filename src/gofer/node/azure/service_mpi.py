"""`launcher: mpi` on Azure ML: the service's own mpirun starts the processes, one for each rank.

They are not the ranks but stand in for them, as in gofer.node.mpi, for as long as the run takes: the
attempts are the agent's. Of the first process of a node comes the agent, in a session of its own, so that
what mpirun does to its processes when one ends badly does not keep it from writing down how it was.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, Dict, Mapping, NoReturn, Optional

from gofer.core import processes
from gofer.core.launch import NodePlace
from gofer.node.azure.share import OF_MPIRUN, AzureShare
from gofer.node.mpi import Mpirun, address

# The first rank to fail is known to its agent before what mpirun makes of it.
_FORWARD_S = 0.3
# Processes of one mpirun start together; who is not there by then was ended.
_GATHER_S = 30.0


def part(share: AzureShare) -> None:
    """Go on as the agent, if one is to come of this process; the process itself never returns, and stands in.

    The agent is told to end when this process is, and when it is gone.
    """
    first = os.getpid()
    agent = os.fork() if share.local == 0 else None
    if agent != 0:
        _stand_in(share, agent)
    os.setsid()
    processes.end_with_parent(signal.SIGTERM)
    if os.getppid() != first:
        os.kill(os.getpid(), signal.SIGTERM)


def _stand_in(share: AzureShare, agent: Optional[int]) -> NoReturn:
    """Be one of mpirun's processes until the agent of the node says how to end; it may be a child."""
    from gofer.node import mpi_rank

    signal.signal(signal.SIGALRM, lambda *_: _send_term(agent))
    signal.signal(signal.SIGTERM, lambda *_: signal.setitimer(signal.ITIMER_REAL, _FORWARD_S))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    def goes_on() -> bool:
        return agent is None or os.waitpid(agent, os.WNOHANG)[0] == 0

    mpi_rank.stand_in(address(share.run_id, 0, share.node), goes_on)


def _send_term(pid: Optional[int]) -> None:
    try:
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass


class ServiceMpirun(Mpirun):
    """The stand-ins of this node's ranks, which stay for all attempts. `gather` may be called again."""

    def __init__(self, place: NodePlace, environment: Mapping[str, str]) -> None:
        super().__init__(place._replace(attempt=0), environment, os.devnull)
        self._found: Dict[int, Dict[str, str]] = {}

    def gather(self, keep_on: Callable[[int], bool]) -> Dict[int, Dict[str, str]]:
        if not self._found:
            told = super().gather(keep_on)
            self._found = {rank: _of_mpirun(values) for rank, values in told.items()}
        return self._found

    def close(self) -> None:
        """Nothing is closed between attempts: see `dismiss`."""

    def dismiss(self, status: int, wait: Callable[[int], None]) -> None:
        """All of them end with this status, also those that have not come yet."""
        from gofer.node.mpi import MpiStopped

        deadline = time.monotonic() + _GATHER_S

        def keep_on(fd: int) -> bool:
            wait(fd)
            return time.monotonic() < deadline

        try:
            self.gather(keep_on)
        except MpiStopped:
            pass
        for stand_in in self._stand_ins.values():
            try:
                stand_in.sendall(b"%d\n" % status)
            except OSError:
                pass  # mpirun has ended it already
            stand_in.close()
        self._stand_ins.clear()

    def _start(self) -> None:
        """The service has."""

    def _check_alive(self) -> None:
        """Who is ended by mpirun is ended with this node."""


def _of_mpirun(values: Mapping[str, str]) -> Dict[str, str]:
    return {name: value for name, value in values.items() if name.startswith(OF_MPIRUN)}
