"""The placeholder for one rank under mpirun: sends its environment to the agent of its node, and exits as the
rank does. See gofer.node.mpi.
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
    """Run the placeholder; never returns. `words` are the id of the run, the attempt, and the processes per
    node.
    """
    run_id, attempt, procs = words[0], int(words[1]), int(words[2])
    node = int(os.environ["OMPI_COMM_WORLD_RANK"]) // procs
    stay(address(run_id, attempt, node), lambda: True)


def stay(name: str, is_needed: Callable[[], bool]) -> NoReturn:
    """Wait for the agent's status and exit with it. Exits early when the parent process ends or `is_needed`
    is False.
    """
    parent = os.getppid()

    def is_awaited() -> bool:
        return is_needed() and os.getppid() == parent

    agent = _connect(name, is_awaited)
    agent.sendall(json.dumps(dict(os.environ)).encode() + b"\n")
    while not select.select([agent], [], [], _LOOK_S)[0]:
        if not is_awaited():
            os._exit(1)  # mpirun was killed, so nobody waits for this process
    status = agent.recv(16)
    os._exit(int(status) if status else 1)


def _connect(name: str, is_awaited: Callable[[], bool]) -> socket.socket:
    """Connect to the agent. The agent may still be busy with set-up, so this waits as long as mpirun
    lives.
    """
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
