"""`launcher: mpi`: mpirun prepares the ranks, and the agents of the nodes start them.

The agent of node 0 runs mpirun. The processes that mpirun starts are not the ranks, but placeholders for them
(gofer.node.mpi_rank). Each placeholder sends the environment that it got from mpirun to the agent of its
node, and waits. The agents then start the ranks themselves, as they do without mpirun. So logs, the guard
against a second start, limits, aborts and exit records are the same under every launcher. Open MPI identifies
its ranks by that environment, not by their parent. A placeholder exits as its rank did, so that mpirun learns
the exit status.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional

from gofer.core import files
from gofer.core.json_text import parse_json
from gofer.core.launch import NodePlace
from gofer.core.sleep import pause
from gofer.node import spawn

LOG = "mpirun.log"
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from gofer.node.mpi_rank import main; main(sys.argv[1:])"
)
# Variables of an outer mpirun, if there is one, about its own ranks.
_OUTER_MPIRUN = ("OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "PMIX_", "PMI_", "SLURM_MEM_PER_")
_CREDENTIALS = struct.Struct("3i")
_READ_S = 30.0
_CLEAN_UP_S = 5.0


class MpiFailed(Exception):
    """mpirun ended or could not be run before the ranks were prepared. The text is for the record."""


class MpiStopped(Exception):
    """The run was stopped while mpirun prepared the ranks."""


class MpiCommand(NamedTuple):
    """What mpirun must start: `procs` placeholders on each of the hosts, in order."""

    hosts: List[str]
    procs: int
    run_id: str
    attempt: int


def address(run_id: str, attempt: int, node: int) -> str:
    """The socket address at which the agent of a node accepts its placeholders: an abstract name, so it is
    visible on that machine only.
    """
    return f"\0gofer-mpi/{run_id}/{attempt}/{node}"


def render(command: MpiCommand, *, as_root: bool) -> List[str]:
    """The command line of mpirun. Nodes that are all on one machine become one host with slots for every
    rank.

    Ranks are not bound to cores, since the cluster decides which cores they may use. The number of ranks per
    node is given here, because mpirun would otherwise use the counts of a cluster that it detects.
    """
    world = command.procs * len(command.hosts)
    if len(set(command.hosts)) == 1:
        where = ["--map-by", "slot", "--host", f"localhost:{world}"]
    else:
        hosts = ",".join(f"{host}:{command.procs}" for host in command.hosts)
        where = ["--map-by", f"ppr:{command.procs}:node:oversubscribe", "--rank-by", "slot", "--host", hosts]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [
        "mpirun",
        *(["--allow-run-as-root"] if as_root else []),
        *("--bind-to", "none", *where, "-np", str(world)),
        *(sys.executable, "-I", "-S", "-c", _PROGRAM, root),
        *(command.run_id, str(command.attempt), str(command.procs)),
    ]


class Mpirun:
    """One node's side of mpirun. Call `gather`, then `close` when the ranks have ended. Main thread only."""

    def __init__(self, place: NodePlace, environment: Mapping[str, str], log: str) -> None:
        self._place = place
        self._environment = {
            **{name: value for name, value in environment.items() if not name.startswith(_OUTER_MPIRUN)},
            **_for_slurm(os.environ),
            # By these variables mpirun is found and ended if this agent is killed.
            "GOFER_RUN_ID": place.run_id,
            "GOFER_ATTEMPT": str(place.attempt),
        }
        self._log = log
        self._pid: Optional[int] = None
        self._placeholders: Dict[int, socket.socket] = {}

    def gather(self, keep_on: Callable[[int], bool]) -> Dict[int, Dict[str, str]]:
        """The variables that mpirun adds for each rank of this node. Blocks until all placeholders have
        connected.

        `keep_on(fd)` waits a moment or until `fd` can be read. MpiStopped when it returns False.
        """
        found: Dict[int, Dict[str, str]] = {}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(address(self._place.run_id, self._place.attempt, self._place.node))
            listener.listen(max(self._place.procs, 1))
            listener.settimeout(0.0)
            if self._place.node == 0:
                self._start()
            while len(found) < self._place.procs:
                if not keep_on(listener.fileno()):
                    raise MpiStopped
                self._check_alive()
                found.update(self._accept(listener))
        return found

    def close(self) -> None:
        """Give mpirun a few seconds to clean up. Processes that are left then are ended like any other that a
        command leaves.
        """
        for placeholder in self._placeholders.values():
            placeholder.close()
        deadline = time.monotonic() + _CLEAN_UP_S
        while self._is_running() and time.monotonic() < deadline:
            pause(0.01)

    def _start(self) -> None:
        wanted = MpiCommand(self._place.hosts, self._place.procs, self._place.run_id, self._place.attempt)
        argv = render(wanted, as_root=os.getuid() == 0)
        try:
            self._pid = spawn.start(spawn.RankCommand(argv, self._environment, self._log, fenced=False))
        except spawn.CannotRun as problem:
            raise MpiFailed(f"{problem}; `launcher: mpi` needs Open MPI on the node") from problem

    def _is_running(self) -> bool:
        if self._pid is None:
            return False
        try:
            done, _ = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            done = self._pid  # it was reaped with the ranks
        if done:
            self._pid = None
        return not done

    def _check_alive(self) -> None:
        if self._place.node == 0 and not self._is_running():
            raise MpiFailed(f"mpirun ended before the ranks were started: {_complaint(self._log)}")

    def _accept(self, listener: socket.socket) -> Dict[int, Dict[str, str]]:
        """Accept the next placeholder: its rank and environment. Empty when none is waiting."""
        try:
            placeholder, _ = listener.accept()
        except (BlockingIOError, InterruptedError):
            return {}
        sent = _read(placeholder) if _is_ours(placeholder) else None
        if sent is None:
            placeholder.close()
            return {}
        rank = int(sent["OMPI_COMM_WORLD_RANK"])
        self._placeholders[rank] = placeholder
        return {rank: {name: value for name, value in sent.items() if self._environment.get(name) != value}}


def _for_slurm(environ: Mapping[str, str]) -> Dict[str, str]:
    """The variables that mpirun needs in a Slurm job, where it starts its daemons by srun. Ranks do not get
    them.

    The agents hold all memory of the allocation until its end, so the daemons must share it with them.
    """
    if "SLURM_JOB_ID" not in environ:
        return {}
    known = {name: value for name, value in environ.items() if name.startswith("SLURM_")}
    shared = {name: value for name, value in known.items() if not name.startswith("SLURM_MEM_PER_")}
    return {**shared, "SLURM_OVERLAP": "1", "SLURM_MEM_PER_NODE": "0"}


def _is_ours(placeholder: socket.socket) -> bool:
    """Whether the peer belongs to this user. An abstract socket has no permissions, so other users can
    connect.
    """
    packed = placeholder.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(packed)[1] == os.getuid())


def _read(placeholder: socket.socket) -> Optional[Dict[str, str]]:
    """The environment that a placeholder sends; None when it closed the connection too early."""
    placeholder.settimeout(_READ_S)
    try:
        with placeholder.makefile("rb") as incoming:
            sent: Dict[str, str] = parse_json(incoming.readline())
    except (OSError, ValueError):
        return None
    return sent


def _complaint(log: str) -> str:
    """The first lines of mpirun's error, without the rows of dashes around it."""
    lines = (line.strip() for line in files.tail_lines(log, 20))
    text = [line for line in lines if line.strip("-*")]
    return " ".join(text[:3])[:300] or "it printed nothing"
