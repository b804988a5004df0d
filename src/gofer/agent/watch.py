"""Wait for a set of processes to end, and end them when it is time: the agent's only loop."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Callable, NamedTuple

_FORWARDED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


class Ended(NamedTuple):
    """How one process ended: an exit code or a signal, never both."""

    rank: int
    pid: int
    exit_code: int | None
    signal: int | None
    at: float

    @property
    def failed(self) -> bool:
        return self.exit_code != 0

    @property
    def status(self) -> int:
        """As a shell would say it: the code, or 128 + the signal."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0


class Outcome(NamedTuple):
    """What happened to a set of processes.

    `cause` is why they were stopped, None when all ended by themselves.
    """

    ended: list[Ended]
    first_failure: Ended | None
    cause: str | None


class Watch:
    """Signals, deadlines and ticks of one agent. One per process, main thread only."""

    def __init__(self, connection: int, on_orphaned: Callable[[], None]) -> None:
        self.cause: str | None = None
        self.firm = False
        self._forward: list[int] = []
        self._connection = connection
        self._on_orphaned = on_orphaned
        self._wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._asked_by_user)
        signal.signal(signal.SIGINT, self._asked_by_peer)
        for sig in _FORWARDED:
            signal.signal(sig, lambda number, _: self._forward.append(number))

    def forget_requests(self) -> None:
        """What was asked was meant for an earlier share."""
        self.cause = None
        self.firm = False
        self._forward.clear()

    def _asked_by_user(self, *_: object) -> None:
        # The second request is the firm one: no grace is left.
        self.firm = self.cause is not None
        self.cause = "user"

    def _asked_by_peer(self, *_: object) -> None:
        self.cause = self.cause or "peer"

    def run(
        self,
        ranks: dict[int, int],
        failed: Ended | None,
        *,
        limit_at: float | None,
        grace_s: float,
        tick: Callable[[], float],
    ) -> Outcome:
        """Wait until every process of `ranks` (pid → rank, each leading its session) has ended.

        A failure (`failed` is one that came before), a request or the limit (monotonic) ends the others:
        SIGTERM to each session, `grace_s` later SIGKILL. `tick` is called now and then; it says when next, in
        seconds.
        """
        ended: list[Ended] = [] if failed is None else [failed]
        first = failed
        cause: str | None = None
        kill_at: float | None = None
        left = dict(ranks)
        next_tick = 0.0
        while True:
            for one in self._reap(left):
                ended.append(one)
                if one.failed and first is None and cause is None:
                    first = one
            if not left:
                return Outcome(ended, first, cause if cause != "failure" else None)
            now = time.monotonic()
            if cause is None:
                cause = self.cause or ("failure" if first else None) or self._late(now, limit_at)
                if cause is not None:
                    _signal_all(left, signal.SIGTERM)
                    kill_at = now + grace_s
            if kill_at is not None and (now >= kill_at or self.firm):
                _signal_all(left, signal.SIGKILL)
                kill_at = now + 1.0
            if now >= next_tick:
                next_tick = now + tick()
            self._pause(left, now, [next_tick, kill_at, limit_at if cause is None else None])

    @staticmethod
    def _late(now: float, limit_at: float | None) -> str | None:
        return "time-limit" if limit_at is not None and now >= limit_at else None

    def _reap(self, left: dict[int, int]) -> list[Ended]:
        """Collect every ended child, also orphans that came to us; report the ones waited for."""
        ended: list[Ended] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if pid == 0:
                return ended
            if pid in left:
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
                sig = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                ended.append(Ended(left.pop(pid), pid, code, sig, time.time()))

    def _pause(self, left: dict[int, int], now: float, deadlines: list[float | None]) -> None:
        until = min(at for at in deadlines if at is not None)
        watched = [self._wake_read] + ([self._connection] if self._connection >= 0 else [])
        ready, _, _ = select.select(watched, [], [], max(0.0, until - now))
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        if self._connection in ready:
            # Nothing is sent to an agent at work, so this is the end of its supervisor.
            self._connection = -1
            self._on_orphaned()
        for number in self._forward:
            _signal_all(left, number)
        self._forward.clear()


def _signal_all(left: dict[int, int], number: int) -> None:
    for pid in left:
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
