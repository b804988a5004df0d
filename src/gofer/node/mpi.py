"""`launcher: mpi`: mpirun prepares the ranks, the agents of the nodes start them.

The agent of node 0 runs mpirun, whose processes are not the ranks but stand-ins for them
(gofer.node.mpi_rank): each hands the environment that mpirun gave it to the agent of its node, and waits.
The agents then start the ranks themselves, as they always do, so that logs, fences, limits, aborts and exit
records are the same under every launcher. Open MPI finds its ranks by that environment, whoever their parent
is; a stand-in ends as its rank did, and so mpirun hears of it.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from gofer.core import files
from gofer.core.json_text import parse_json
from gofer.core.launch import NodePlace
from gofer.core.sleep import pause
from gofer.node import spawn
from gofer.node.watch import ProcessEnd

LOG = "mpirun.log"
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from gofer.node.mpi_rank import main; main(sys.argv[1:])"
)
# What an mpirun around this one, if there is one, says about its own ranks.
_ANOTHERS = ("OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "PMIX_", "PMI_", "SLURM_MEM_PER_")
_CREDENTIALS = struct.Struct("3i")
_READ_S = 30.0
_FAREWELL_S = 5.0


class MpiFailed(Exception):
    """mpirun ended, or could not be run, before the ranks were there; in words for the record."""


class MpiStopped(Exception):
    """Somebody wanted the run to stop while mpirun prepared it."""


class MpiCommand(NamedTuple):
    """What mpirun is asked for: so many stand-ins on each of these hosts, in their order."""

    hosts: List[str]
    procs: int
    run_id: str
    attempt: int


def address(run_id: str, attempt: int, node: int) -> str:
    """Where the agent of a node hears the stand-ins of its ranks; a name that only its own machine knows."""
    return f"\0gofer-mpi/{run_id}/{attempt}/{node}"


def render(command: MpiCommand, *, as_root: bool) -> List[str]:
    """The words of mpirun. Nodes that are all one machine are one host with room for every rank.

    Ranks are bound to no core: which cores they may use is for the cluster to say. How many go on a node is
    said here, whatever a cluster that mpirun knows of has counted.
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
    """mpirun as one node of an attempt sees it. Main thread only: `gather`, then `tell`, then `close`."""

    def __init__(self, place: NodePlace, environment: Mapping[str, str], log: str) -> None:
        self._place = place
        self._environment = {
            **{name: value for name, value in environment.items() if not name.startswith(_ANOTHERS)},
            **_for_slurm(os.environ),
            # By these it is found and ended if this agent is killed.
            "GOFER_RUN_ID": place.run_id,
            "GOFER_ATTEMPT": str(place.attempt),
        }
        self._log = log
        self._pid: Optional[int] = None
        self._stand_ins: Dict[int, socket.socket] = {}

    def gather(self, keep_on: Callable[[int], bool]) -> Dict[int, Dict[str, str]]:
        """What mpirun adds to the environment of each rank of this node. Blocks until all are known.

        `keep_on` waits for a descriptor, not for long, and is False when the run is to stop: MpiStopped.
        """
        found: Dict[int, Dict[str, str]] = {}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(address(self._place.run_id, self._place.attempt, self._place.node))
            door.listen(max(self._place.procs, 1))
            door.settimeout(0.0)
            if self._place.node == 0:
                self._start()
            while len(found) < self._place.procs:
                if not keep_on(door.fileno()):
                    raise MpiStopped
                self._check_alive()
                found.update(self._hear(door))
        return found

    def tell(self, one: ProcessEnd) -> None:
        """A rank has ended; its stand-in ends alike."""
        stand_in = self._stand_ins.pop(one.rank, None)
        if stand_in is None:
            return
        try:
            stand_in.sendall(b"%d\n" % one.status)
        except OSError:
            pass  # mpirun has ended it already
        stand_in.close()

    def close(self) -> None:
        """Wait a moment for mpirun to tidy up after itself; what is left then is ended as any stray is."""
        for stand_in in self._stand_ins.values():
            stand_in.close()
        deadline = time.monotonic() + _FAREWELL_S
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

    def _hear(self, door: socket.socket) -> Dict[int, Dict[str, str]]:
        """The next stand-in's rank and environment; nothing when none has come."""
        try:
            stand_in, _ = door.accept()
        except (BlockingIOError, InterruptedError):
            return {}
        told = _read(stand_in) if _is_ours(stand_in) else None
        if told is None:
            stand_in.close()
            return {}
        rank = int(told["OMPI_COMM_WORLD_RANK"])
        self._stand_ins[rank] = stand_in
        return {rank: {name: value for name, value in told.items() if self._environment.get(name) != value}}


def _for_slurm(environ: Mapping[str, str]) -> Dict[str, str]:
    """What mpirun must know within Slurm, where it starts its daemons by srun. Ranks need not see it.

    The agents have all the memory of the allocation and stay until its end: the daemons share with them.
    """
    if "SLURM_JOB_ID" not in environ:
        return {}
    known = {name: value for name, value in environ.items() if name.startswith("SLURM_")}
    shared = {name: value for name, value in known.items() if not name.startswith("SLURM_MEM_PER_")}
    return {**shared, "SLURM_OVERLAP": "1", "SLURM_MEM_PER_NODE": "0"}


def _is_ours(stand_in: socket.socket) -> bool:
    """Names like this one's have no permissions: others may knock."""
    packed = stand_in.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(packed)[1] == os.getuid())


def _read(stand_in: socket.socket) -> Optional[Dict[str, str]]:
    """None when it went away, or mpirun killed it, before it had said all."""
    stand_in.settimeout(_READ_S)
    try:
        with stand_in.makefile("rb") as incoming:
            told: Dict[str, Any] = parse_json(incoming.readline())
    except (OSError, ValueError):
        return None
    return told


def _complaint(log: str) -> str:
    """mpirun's first lines of text; it frames them with dashes."""
    lines = (line.strip() for line in files.tail_lines(log, 20))
    text = [line for line in lines if line.strip("-*")]
    return " ".join(text[:3])[:300] or "it said nothing"
