"""The process that runs one node's share of one generation: an ordinary attempt, in a child of the agent.

The child kills its ranks, and ends, when its agent is gone, and when the licence of its agent is over and the
agent does not say otherwise: a frozen agent cannot kill them itself.
"""

from __future__ import annotations

import gc
import math
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from typing import Callable, Dict, NoReturn, Optional

from gofer.core import files, processes, run_layout
from gofer.core.launch import NodePlace
from gofer.core.states import Reason, State
from gofer.node.elastic import records
from gofer.node.elastic.records import RankResult
from gofer.node.rendezvous.base import Membership
from gofer.node.rendezvous.folder import RunFolderMessages
from gofer.node.runner import Node
from gofer.node.watch import REQUESTS, STOP, STOP_FOR_PEER, STOP_NOW, Watch

# A rank that exits so asks for a new generation (EX_TEMPFAIL).
RESTART = 75
_FENCED = 5
_LOOK_S = 0.4
_LICENCE = struct.Struct("d")
# The variable by which the processes of a member are found.
MEMBER_VARIABLE = "GOFER_MEMBER"

# Makes the node of a place, to be run with this watch, with further variables for its ranks.
MakeNode = Callable[[NodePlace, Watch, Dict[str, str]], Node]


def clock() -> float:
    """Seconds of a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Licence:
    """Until when ranks may run, by `clock`: shared between an agent and its children."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _LICENCE.size)
        self.until = -math.inf

    @property
    def until(self) -> float:
        return float(_LICENCE.unpack_from(self._memory)[0])

    @until.setter
    def until(self, value: float) -> None:
        _LICENCE.pack_into(self._memory, 0, value)


class GenerationRendezvous(RunFolderMessages):
    """The rendezvous of a generation, which the leader has formed already."""

    watch_interval_s = _LOOK_S

    def __init__(self, store: str, place: NodePlace, watch: Watch, licence: Licence) -> None:
        super().__init__(store, place, watch)
        self._licence = licence
        self.membership = Membership(place.hosts, place.port, place.attempt)

    def join(self) -> Optional[Membership]:
        return self.membership

    def watch(self) -> Optional[str]:
        """Kill the ranks and end, when the licence is over. The leader tells of all other changes."""
        if clock() >= self._licence.until:
            _fence()
        return None


class GenerationProcess:
    """The agent's side of the child. Forked in the main thread; REQUESTS are for the child too."""

    def __init__(self, place: NodePlace, make_node: MakeNode, licence: Licence, member: str) -> None:
        self.place = place
        self._member = member
        self._is_told = False
        reading, self._writing = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(reading, place, make_node, licence, member)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS)
        os.close(reading)

    def stop(self) -> None:
        """End the ranks with SIGTERM, and with SIGKILL after their grace."""
        self._signal(STOP_FOR_PEER)

    def abort(self, *, at_once: bool) -> None:
        """End the ranks as a person has asked."""
        self._signal(STOP_NOW if at_once else STOP)

    def kill(self) -> None:
        """Kill the child and all its processes. Blocks until none is left."""
        self._signal(signal.SIGKILL)
        self._sweep()

    def ended(self, store: str) -> Optional[RankResult]:
        """How the ranks have ended, once no process of them is left; None while they run."""
        try:
            done, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            done, status = self.pid, 1 << 8
        if not done:
            return None
        os.close(self._writing)
        if status:
            self._sweep()
        folder = os.path.join(store, run_layout.node_key(*self.place[:3]))
        record = files.read_json(os.path.join(folder, run_layout.EXIT))
        is_expected = self._is_told or os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == _FENCED
        return _result(self.place.attempt, record, is_expected=is_expected)

    def _signal(self, number: int) -> None:
        self._is_told = True
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def _sweep(self) -> None:
        mark = f"{MEMBER_VARIABLE}={self._member}"
        processes.kill_until_gone(
            lambda table: processes.having_environment(mark, table) | processes.descendants(self.pid, table)
        )


def _result(generation: int, record: Optional[Dict[str, object]], *, is_expected: bool) -> RankResult:
    """What the leader is told. A share that was stopped is no failure of the command."""
    if record is None or record["state"] not in (State.SUCCEEDED, State.FAILED):
        if is_expected or record is not None:
            return RankResult(generation, records.STOPPED)
        words = "the agent of this node failed; its log says why"
        return RankResult(generation, records.FAILED, Reason.STAGING.value, words)
    code, reason, detail = record["exit_code"], record["reason"], record["detail"]
    is_success = record["state"] == State.SUCCEEDED
    return RankResult(
        generation,
        records.SUCCEEDED if is_success else records.FAILED,
        None if reason is None else str(reason),
        None if detail is None else str(detail),
        code if isinstance(code, int) else None,
        restart=code == RESTART,
    )


def _be_child(reading: int, place: NodePlace, make_node: MakeNode, licence: Licence, member: str) -> NoReturn:
    """In the forked child. Nothing may return into the agent's code."""
    status = 1
    try:
        gc.enable()
        signal.set_wakeup_fd(-1)
        processes.close_all_but({0, 1, 2, reading})
        processes.adopt_orphans()
        watch = Watch(reading, _fence, at_work=True)
        node = make_node(place, watch, {MEMBER_VARIABLE: member})
        node.rendezvous = GenerationRendezvous(node.task.store, place, watch, licence)
        status = node.run()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)


def _fence() -> NoReturn:
    """Kill everything below this process, and end."""
    processes.kill_until_gone(lambda table: processes.descendants(os.getpid(), table))
    os._exit(_FENCED)
