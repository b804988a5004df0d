"""Stands in for one rank before mpirun: hands its environment to the agent of its node, and ends as the rank
does. See gofer.node.mpi.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from typing import Callable, List, NoReturn

from gofer.core.sleep import pause
from gofer.node.mpi import address

_LOOK_S = 1.0
_LONGEST_DELAY_S = 0.5


def main(words: List[str]) -> None:
    """Never returns. `words` are the run's id, its attempt, and the processes of each node."""
    run_id, attempt, procs = words[0], int(words[1]), int(words[2])
    node = int(os.environ["OMPI_COMM_WORLD_RANK"]) // procs
    stand_in(address(run_id, attempt, node), lambda: True)


def stand_in(name: str, goes_on: Callable[[], bool]) -> NoReturn:
    """Before whoever started this process, for as long as that lives and `goes_on`."""
    parent = os.getppid()

    def is_awaited() -> bool:
        return goes_on() and os.getppid() == parent

    agent = _connect(name, is_awaited)
    agent.sendall(json.dumps(dict(os.environ)).encode() + b"\n")
    while not select.select([agent], [], [], _LOOK_S)[0]:
        if not is_awaited():
            os._exit(1)  # mpirun was killed: nobody waits for this any more
    status = agent.recv(16)
    os._exit(int(status) if status else 1)


def _connect(name: str, is_awaited: Callable[[], bool]) -> socket.socket:
    """The agent may still be busy with the node's set-up; it is waited for as long as mpirun lives."""
    delay_s = 0.01
    while is_awaited():
        agent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            agent.connect(name)
        except ConnectionRefusedError:
            agent.close()
        else:
            return agent
        pause(delay_s)
        delay_s = min(delay_s * 1.5, _LONGEST_DELAY_S)
    sys.exit(1)
