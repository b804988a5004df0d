"""Wait for a set of processes to end, and end them when they must stop: the agent's only loop."""

from __future__ import annotations

import math
import os
import select
import signal
import time
from typing import Callable, Iterable, NamedTuple

# The signals with which a supervisor asks an agent to stop: gently, with the run's own grace; gently, until
# the supervisor itself ends the grace; at once; and because another node failed. SIGTERM comes from programs
# that know nothing about runs, above all from a machine that shuts down.
STOP = signal.SIGRTMIN + 1
STOP_PATIENTLY = signal.SIGRTMIN + 2
STOP_NOW = signal.SIGRTMIN + 3
STOP_FOR_PEER = signal.SIGRTMIN + 4
REQUESTS = (STOP, STOP_PATIENTLY, STOP_NOW, STOP_FOR_PEER, signal.SIGTERM)


def stop_self(grace_s: float | None) -> None:
    """Let this agent stop its ranks; a signal handler may call this. `grace_s` is None for the grace of the
    run. SIGALRM must send STOP_NOW to this process.
    """
    if grace_s is None:
        os.kill(os.getpid(), STOP)
    elif grace_s == 0.0:
        os.kill(os.getpid(), STOP_NOW)
    else:
        signal.setitimer(signal.ITIMER_REAL, grace_s)
        os.kill(os.getpid(), STOP_PATIENTLY)


_FORWARDED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
_GROUP_CHECK_S = 0.05
_KILL_AGAIN_S = 1.0
_HOLD_CHECK_S = 0.5


class ProcessEnd(NamedTuple):
    """How one process ended: an exit code or a signal, never both.

    `peak_kib` is the most memory that the process used, or any child for which it waited.
    """

    rank: int
    pid: int
    exit_code: int | None
    signal: int | None
    at: float
    peak_kib: int = 0

    @property
    def failed(self) -> bool:
        return self.exit_code != 0

    @property
    def status(self) -> int:
        """The exit status as in a shell: the exit code, or 128 + the signal."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0


class WatchResult(NamedTuple):
    """What happened to a set of processes.

    `cause` is why they were stopped; None when all ended by themselves.
    """

    ended: list[ProcessEnd]
    first_failure: ProcessEnd | None
    cause: str | None


class Watch:
    """Handles signals, deadlines and ticks of one agent. One per process, main thread only.

    `connection` is negative for an agent without a supervisor.

    A request to stop between `end` and `begin` ends the agent at once: the request may be about a share that
    is finished, or about a share that the agent has not read yet and then never starts. `at_work`: the agent
    has one share, from its start to its end, so `begin` and `end` do not matter.
    """

    def __init__(self, connection: int, on_orphaned: Callable[[], None], *, at_work: bool = False) -> None:
        self._is_at_work = at_work
        self.cause: str | None = None
        self.has_failed = False
        self._firm = False
        self._patient = False
        self._forward: list[int] = []
        self._connection = connection
        self._on_orphaned = on_orphaned
        self._wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for forwarded in _FORWARDED:
            signal.signal(forwarded, lambda number, _: self._forward.append(number))
        for request in REQUESTS:
            signal.signal(request, self._on_request)
        # The parent blocked these signals before the fork, so that none is lost before the handlers are
        # installed.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS)

    @property
    def is_orphaned(self) -> bool:
        """Whether the supervisor is gone. While an agent is at work, its connection becomes readable only
        then.
        """
        return self._connection < 0 or bool(select.select([self._connection], [], [], 0.0)[0])

    @property
    def is_firm(self) -> bool:
        """Whether a request to stop at once has come."""
        return self._firm

    def wait(self, fd: int, longest_s: float) -> None:
        """Wait until `fd` can be read, a request comes, or the time is over. Only while no rank runs."""
        self._pause((), longest_s, also=fd)

    def stop_for_peer(self) -> None:
        """Stop because another node failed, on a machine that cannot send a signal to this one."""
        self.cause = self.cause or "peer"

    def begin(self) -> None:
        """A share begins: from here on, requests are about this share."""
        self.cause = None
        self._firm = self._patient = False
        self._forward.clear()
        self._is_at_work = True

    def end(self) -> None:
        """The share is done: from here on, requests are not about it."""
        self._is_at_work = False

    def _on_request(self, number: int, _: object) -> None:
        if not self._is_at_work:
            os._exit(0)
        if number in (STOP_FOR_PEER, signal.SIGTERM):
            self.cause = self.cause or ("peer" if number == STOP_FOR_PEER else "shutdown")
            return
        self.cause = "user"
        self._patient = number == STOP_PATIENTLY
        self._firm = self._firm or number == STOP_NOW

    def run(
        self,
        ranks: dict[int, int],
        failed: ProcessEnd | None,
        *,
        limit_at: float | None,
        grace_s: float,
        tick: Callable[[], float],
    ) -> WatchResult:
        """Wait until every process of `ranks` (pid → rank, each a session leader) has ended. Blocks.

        A failure, a request or the limit (monotonic time) ends the others: first SIGTERM to each process
        group, then SIGKILL after `grace_s`. Processes that an ended rank left in its group get the same
        grace. `failed` is a rank that failed before the call. `tick` is called regularly and returns the
        seconds until its next call.
        """
        ended = [] if failed is None else [failed]
        first, left, next_tick = failed, dict(ranks), 0.0
        stopping: _Stopping | None = None
        while True:
            for one in self._reap(left):
                ended.append(one)
                if one.failed and first is None and stopping is None:
                    first = one
            self.has_failed = first is not None
            now = time.monotonic()
            if stopping is None and left:
                cause = self.cause or ("failure" if first else None) or _late(now, limit_at)
                stopping = None if cause is None else _Stopping(cause, left, now)
            if not left and (stopping is None or stopping.is_over()):
                return WatchResult(ended, first, None if stopping is None else stopping.reported_cause)
            if now >= next_tick:
                next_tick = now + tick()
            look_at = (
                limit_at
                if stopping is None
                else stopping.continue_stopping(now, self._grace_s(stopping, grace_s))
            )
            self._pause(left, min(next_tick, math.inf if look_at is None else look_at) - now)

    def hold(
        self, *, limit_at: float | None, tick: Callable[[], float], is_over: Callable[[], bool]
    ) -> WatchResult:
        """Wait without ranks until `is_over` returns True, a request comes, or the limit (monotonic time) is
        reached.

        `tick` is called as by `run`; `is_over` is called about twice a second.
        """
        next_tick = 0.0
        while True:
            self._reap({})  # processes that the command started on this node and left behind
            now = time.monotonic()
            cause = self.cause or _late(now, limit_at)
            if cause is not None or is_over():
                return WatchResult([], None, cause)
            if now >= next_tick:
                next_tick = now + tick()
            until = min(next_tick, now + _HOLD_CHECK_S, math.inf if limit_at is None else limit_at)
            self._pause((), until - now)

    def _grace_s(self, stopping: _Stopping, own_s: float) -> float:
        if self._firm:
            return 0.0
        return math.inf if self._patient and stopping.cause == "user" else own_s

    def _reap(self, left: dict[int, int]) -> list[ProcessEnd]:
        """Reap every ended child, also adopted orphans; return the ends of those in `left`."""
        ended: list[ProcessEnd] = []
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            if pid in left:
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
                sig = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                ended.append(ProcessEnd(left.pop(pid), pid, code, sig, time.time(), used.ru_maxrss))

    def _pause(self, left: Iterable[int], longest_s: float, *, also: int = -1) -> None:
        watched = [fd for fd in (self._wake_read, self._connection, also) if fd >= 0]
        ready, _, _ = select.select(watched, [], [], max(0.0, longest_s))
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        if self._connection in ready:
            # The supervisor sends nothing to an agent at work, so a readable connection means that the
            # supervisor ended.
            self._connection = -1
            self._on_orphaned()
        for number in self._forward:
            for pid in left:
                _signal_group(pid, number)
        self._forward.clear()


class _Stopping:
    """Ends process groups: SIGTERM when this object is created, SIGKILL when their grace is over."""

    def __init__(self, cause: str, groups: Iterable[int], now: float) -> None:
        self.cause = cause
        self._since = now
        self._groups = [pid for pid in groups if _signal_group(pid, signal.SIGTERM)]
        self._killed_at: float | None = None

    @property
    def reported_cause(self) -> str | None:
        """The cause to report. None when a rank failed, since the failure itself is reported then."""
        return None if self.cause == "failure" else self.cause

    def is_over(self) -> bool:
        """Whether no process is left, or all were killed. Killed processes need no further wait."""
        self._groups = [pid for pid in self._groups if _signal_group(pid, 0)]
        return self._killed_at is not None or not self._groups

    def continue_stopping(self, now: float, grace_s: float) -> float:
        """Kill the groups if their grace is over; the time of the next check."""
        if now < self._since + grace_s:
            # A process in the group that is not a child of the agent causes no SIGCHLD when it ends, so check
            # regularly.
            return min(self._since + grace_s, now + _GROUP_CHECK_S)
        if self._killed_at is None or now >= self._killed_at + _KILL_AGAIN_S:
            self._killed_at = now
            for pid in self._groups:
                _signal_group(pid, signal.SIGKILL)
        return self._killed_at + _KILL_AGAIN_S


def _late(now: float, limit_at: float | None) -> str | None:
    return "time-limit" if limit_at is not None and now >= limit_at else None


def _signal_group(group: int, number: int) -> bool:
    """Signal a process group; False when it has no process."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # the group has a process that became another user
    return True
