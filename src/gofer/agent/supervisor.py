"""The supervisor of one machine's queue: starts on demand, works it off, leaves when there is nothing to do.

It may be killed at any moment. Agents go on without it; the next supervisor (started by an agent that noticed, or
by the next gofer command) finds them by their locks and the rest in the queue and the run folders.
"""

from __future__ import annotations

import fcntl
import gc
import math
import os
import select
import shutil
import signal
import socket
import sqlite3
import sys
import time
import traceback
from functools import partial
from typing import Any, Dict, List, NoReturn, Optional, Tuple

from gofer.agent import attempts, files, folder, launch, processes, queue, scheduler, sealed, wake
from gofer.agent.crew import Crew, Share, ignore_signals
from gofer.agent.node import Task
from gofer.agent.queue import Entry, Queue
from gofer.agent.states import Reason, State

LINGER_S = 3.0
_ADOPTED_LOOK_S = 0.25
_STUCK_S = 15.0
_TAKEOVER_S = 10.0
_STORE_PATIENCE_S = 60.0
_LONGEST_DELAY_S = 60.0


class Active:
    """A run whose agents are, or were a moment ago, alive."""

    def __init__(
        self, entry: Entry, request: Dict[str, Any], grant: scheduler.Grant, *, adopted: bool
    ) -> None:
        self.entry = entry
        self.request = request
        self.grant = grant
        self.adopted = adopted
        limit = request["time_limit_s"]
        self.ends_at = time.monotonic() + limit if limit is not None else math.inf
        self.left = {Share(entry.id, entry.attempt, node) for node in range(request["layout"]["nodes"])}
        self.requests_to_stop = 0
        self.next_request_at = math.inf

    @property
    def store(self) -> str:
        return str(self.request["store"])


class Ending:
    """A run that ended and whose last line is not in the store yet."""

    def __init__(self, entry: Entry, request: Dict[str, Any]) -> None:
        self.entry = entry
        self.request = request
        self.since = time.monotonic()


class Supervisor:
    """One loop: hear what changed, settle what ended, start what fits, write it down."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.queue = Queue(engine)
        self.crew = Crew(engine)
        self.pool = scheduler.Pool(len(os.sched_getaffinity(0)))
        self.waiting: List[Entry] = []
        self.active: Dict[str, Active] = {}
        self.requests: Dict[str, Dict[str, Any]] = {}
        self.environments: Dict[str, Dict[str, str]] = {}
        self.dirty: Dict[int, Entry] = {}
        self.endings: List[Ending] = []
        self.open_runs: Dict[str, int] = {}
        self.last_seq = 0
        self.seen_version = -1
        self.head: Optional[str] = None
        self.head_since = 0.0
        self.boot = processes.boot_id()
        self.fifo = -1
        self.idle_since: Optional[float] = None
        self.pause_until = 0.0

    # -- the loop

    def run(self) -> None:
        self._listen()
        while True:
            self._hear()
            self._load()
            self._settle_ended()
            self._stop_asked()
            self._start_fitting()
            self._write_down()
            if self._may_leave():
                return
            self._sleep()

    def _listen(self) -> None:
        path = wake.fifo(self.engine)
        if not os.path.exists(path):
            os.mkfifo(path, 0o600)
        self.fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _sleep(self) -> None:
        now = time.monotonic()
        until = [now + 5.0]
        if any(one.adopted for one in self.active.values()):
            until.append(now + _ADOPTED_LOOK_S)
        if self.dirty or self.endings:
            until.append(now + 0.5)
        if self.idle_since is not None:
            until.append(self.idle_since + LINGER_S)
        until += [one.next_request_at for one in self.active.values()]
        wall = time.time()
        until += [now + one.not_before - wall for one in self.waiting[:64] if one.not_before > wall]
        watched = [self.fifo, self._wakeup, self.crew.reports]
        ready, _, _ = select.select(watched, [], [], max(0.0, min(until) - now))
        for fd in ready:
            if fd != self.crew.reports:
                _drain(fd)

    def _may_leave(self) -> bool:
        """Leave after a while without work. The FIFO is closed first, so that nobody pokes into the void."""
        if self.active or self.waiting or self.dirty or self.endings:
            self.idle_since = None
            return False
        now = time.monotonic()
        if self.idle_since is None:
            self.idle_since = now
        if now - self.idle_since < LINGER_S:
            return False
        os.close(self.fifo)
        if self.queue.has_open():
            self.idle_since = None
            self._listen()
            return False
        return True

    # -- what changed

    def _hear(self) -> None:
        for report in self.crew.read_reports():
            one = self.active.get(report.run_id)
            if one is not None and one.entry.state == State.STARTING:
                self._mark_running(one.entry, report.at)
        for one in self.active.values():
            if one.adopted and one.entry.state == State.STARTING:
                facts = attempts.read(one.store, one.entry.id, one.entry.attempt, len(one.grant.gpus))
                if facts.started:
                    self._mark_running(one.entry, time.time())

    def _mark_running(self, entry: Entry, at: float) -> None:
        entry.state = State.RUNNING.value
        entry.started_at = entry.started_at or at
        self.dirty[entry.seq] = entry

    def _load(self) -> None:
        version = self.queue.version()
        if version == self.seen_version:
            return
        self.seen_version = version
        fresh = self.queue.load_open(self.last_seq)
        for entry in fresh:
            self.last_seq = max(self.last_seq, entry.seq)
            self.open_runs[entry.request] = self.open_runs.get(entry.request, 0) + 1
            if entry.state == State.QUEUED:
                self.waiting.append(entry)
            else:
                self._take_over(entry)
        if fresh:
            self.waiting.sort(key=lambda one: one.order)
        self._mark_cancels()

    def _mark_cancels(self) -> None:
        asked = dict(self.queue.load_cancels())
        if asked:
            for entry in [*self.waiting, *(one.entry for one in self.active.values())]:
                if entry.cancel_grace_s is None and entry.id in asked:
                    entry.cancel_grace_s = asked[entry.id]

    def _take_over(self, entry: Entry) -> None:
        """A run that an earlier supervisor started: its agents may be alive, or have ended unseen."""
        request = self._request(entry.request)
        grant = scheduler.Grant(entry.gpus, self._demand(entry).cpus)
        one = Active(entry, request, grant, adopted=True)
        self.pool.take(grant)
        self.active[entry.id] = one

    def _request(self, request_id: str) -> Dict[str, Any]:
        if request_id not in self.requests:
            self.requests[request_id] = self.queue.load_request(request_id)
        return self.requests[request_id]

    # -- what ended

    def _settle_ended(self) -> None:
        for share in self.crew.reap():
            one = self.active.get(share.run_id)
            if one is not None and one.entry.attempt == share.attempt:
                self._agent_gone(one, share)
        for one in [one for one in self.active.values() if one.adopted]:
            for share in [share for share in one.left if not self.crew.is_alive(share)]:
                self._agent_gone(one, share)

    def _agent_gone(self, one: Active, share: Share) -> None:
        one.left.discard(share)
        record = files.read_json(os.path.join(one.store, folder.node_key(*share), folder.EXIT))
        if record is None:
            self.crew.sweep(one.store, share)
        if one.left and (record is None or record["state"] != State.SUCCEEDED):
            for peer in one.left:
                self.crew.signal(one.store, peer, signal.SIGINT)
        if not one.left:
            self._settle(one)

    def _settle(self, one: Active) -> None:
        entry = one.entry
        del self.active[entry.id]
        self.pool.give_back(one.grant)
        facts = attempts.read(one.store, entry.id, entry.attempt, len(one.grant.gpus))
        result = attempts.judge(facts, restarts=entry.restarts, rebooted=entry.boot != self.boot)
        self.dirty[entry.seq] = entry
        if result.state == State.QUEUED and entry.cancel_grace_s is None:
            entry.restarts += 1
            entry.attempt -= 1
            self._wait_again(entry)
            return
        if result.state in (State.QUEUED, State.LOST) and entry.cancel_grace_s is not None:
            result = result._replace(state=State.CANCELLED, reason=Reason.USER, detail="aborted")
        entry.attempts.append(_attempt_record(entry, result))
        if self._retries(one, result):
            delay = min(_LONGEST_DELAY_S, 2.0 ** (len(entry.attempts) - 1))
            entry.not_before = time.time() + delay
            self._wait_again(entry)
            return
        self._end(entry, result)

    def _retries(self, one: Active, result: attempts.Result) -> bool:
        allowed = one.request["retries"] >= len(one.entry.attempts) and one.entry.cancel_grace_s is None
        return allowed and result.reason is not None and result.reason.value in one.request["retry_on"]

    def _wait_again(self, entry: Entry) -> None:
        entry.state = State.QUEUED.value
        self.waiting.append(entry)
        self.waiting.sort(key=lambda one: one.order)

    def _end(self, entry: Entry, result: attempts.Result) -> None:
        entry.reason = None if result.reason is None else result.reason.value
        entry.detail, entry.exit_code = result.detail, result.exit_code
        entry.started_at = entry.attempts[0]["started_at"] if entry.attempts else None
        entry.ended_at = result.ended_at
        entry.elapsed_s = sum(one["elapsed_s"] or 0.0 for one in entry.attempts) if entry.attempts else None
        # The queue keeps the old state until the store has the end: a crash between the two settles it again.
        self.dirty.pop(entry.seq, None)
        entry.state = result.state.value
        self.endings.append(Ending(entry, self._request(entry.request)))

    # -- what is to be stopped

    def _stop_asked(self) -> None:
        stopped = [one for one in self.waiting if one.cancel_grace_s is not None]
        if stopped:
            self.waiting = [one for one in self.waiting if one.cancel_grace_s is None]
        for entry in stopped:
            words = (
                "aborted while it waited for its next attempt"
                if entry.attempts
                else "aborted before it was started"
            )
            self._end(
                entry, attempts.Result(State.CANCELLED, Reason.USER, words, None, None, time.time(), None)
            )
        for one in self.active.values():
            if one.entry.cancel_grace_s is not None:
                self._ask_to_stop(one, one.entry.cancel_grace_s)

    def _ask_to_stop(self, one: Active, grace_s: float) -> None:
        """First a request, then, when the caller's grace or the agent's own is over, a firm one, then the end."""
        now = time.monotonic()
        if one.requests_to_stop and now < one.next_request_at:
            return
        if not one.requests_to_stop:
            own = one.request["grace_s"] + _STUCK_S
            one.next_request_at = now + (own if grace_s == queue.OWN_GRACE else grace_s)
        else:
            one.next_request_at = now + _STUCK_S
        self._signal(one, signal.SIGTERM if one.requests_to_stop < 2 else signal.SIGKILL)
        one.requests_to_stop += 1

    def _signal(self, one: Active, number: int) -> None:
        for share in one.left:
            self.crew.signal(one.store, share, number)

    # -- what starts

    def _start_fitting(self) -> None:
        if not self.waiting or self.pool.free_cpus <= 0 or time.monotonic() < self.pause_until:
            return
        now, wall = time.monotonic(), time.time()
        # A clock that was set back must not hold a retry for longer than the longest delay.
        ready = (
            one for one in self.waiting if one.not_before <= wall or one.not_before > wall + _LONGEST_DELAY_S
        )
        held = [scheduler.Held(one.grant, one.ends_at) for one in self.active.values()]
        passed_over_s = now - self.head_since if self.head is not None else 0.0
        starts, head = scheduler.choose(
            ready, self._demand, self.pool, held, now=now, passed_over_s=passed_over_s
        )
        if head is None or head.id != self.head:
            self.head, self.head_since = (None if head is None else head.id), now
        if starts:
            self._start(starts)

    def _start(self, starts: List[Tuple[Entry, scheduler.Grant]]) -> None:
        """Write the starts down first: a start that is not in the queue must not have happened."""
        for entry, grant in starts:
            entry.state, entry.boot, entry.gpus = State.STARTING.value, self.boot, grant.gpus
            entry.attempt += 1
            entry.started_at = None
            self.dirty[entry.seq] = entry
        if not self._save():
            for entry, grant in starts:
                entry.state = State.QUEUED.value
                entry.attempt -= 1
                self.pool.give_back(grant)
            return
        self._no_longer_waiting([entry for entry, _ in starts])
        for entry, grant in starts:
            one = Active(entry, self._request(entry.request), grant, adopted=False)
            self.active[entry.id] = one
            self._fork(one)

    def _no_longer_waiting(self, started: List[Entry]) -> None:
        if self.waiting[: len(started)] == started:
            del self.waiting[: len(started)]  # nearly always: they come off the front of a long queue
        else:
            self.waiting = [one for one in self.waiting if one.state == State.QUEUED]

    def _fork(self, one: Active) -> None:
        if one.entry.request not in self.environments:
            known = sealed.read(self.engine, one.entry.request)
            self.environments[one.entry.request] = {**known, **one.request["env"]}
        port = _free_port()
        for share in sorted(one.left):
            if not self.crew.start(share, partial(self._task, one, share.node, port)):
                one.adopted = True

    def _task(self, one: Active, node: int, port: int, cgroup: Optional[str]) -> Task:
        entry, request, layout = one.entry, one.request, one.request["layout"]
        assigned = request["gpus"] > 0
        place = launch.Place(
            run_id=entry.id,
            attempt=entry.attempt,
            node=node,
            nodes=layout["nodes"],
            procs=layout["procs_per_node"],
            gpus=one.grant.gpus[node] if assigned else None,
            master="127.0.0.1",
            port=port,
            hosts=["127.0.0.1"] * layout["nodes"],
        )
        # Rows of an array share one copy of the code; a run of its own gets a fresh one for each node and attempt.
        name = "code" if entry.row is not None else f"code-{entry.attempt}-{node}"
        code = os.path.join(self.engine, "work", entry.request, name)
        return Task(request, place, entry.args, one.store, code, self.environments[entry.request], cgroup)

    def _demand(self, entry: Entry) -> scheduler.Demand:
        request = self._request(entry.request)
        layout = request["layout"]
        cpus = layout["nodes"] * layout["procs_per_node"] * layout["cpus_per_proc"]
        per_node = layout["gpus_per_node"]
        return scheduler.Demand(
            layout["nodes"],
            per_node,
            min(cpus, self.pool.cpus),
            request["time_limit_s"],
            request["gpus"],
            request["block"] or 1,
        )

    # -- what is written down

    def _write_down(self) -> None:
        self._write_ends()
        self._save()

    def _write_ends(self) -> None:
        by_request: Dict[str, List[Ending]] = {}
        for ending in self.endings:
            by_request.setdefault(ending.entry.request, []).append(ending)
        self.endings = []
        for request_id, group in by_request.items():
            data = b"".join(files.encode(_end_record(one.entry)) + b"\n" for one in group)
            path = os.path.join(group[0].request["store"], folder.ends_key(request_id))
            try:
                files.append(path, data)
            except OSError as error:
                if time.monotonic() - group[0].since < _STORE_PATIENCE_S or error.errno in files.FULL:
                    self.endings += group
                    continue
                print(f"gofer: the store of {request_id} is gone: {error}", file=sys.stderr, flush=True)
            for one in group:
                self.dirty[one.entry.seq] = one.entry

    def _save(self) -> bool:
        """Commit every change; on a full disk keep them and try again on the next round."""
        if not self.dirty:
            return True
        changed = list(self.dirty.values())
        try:
            self.queue.save(changed)
        except sqlite3.OperationalError as error:
            print(f"gofer: the queue cannot be written: {error}", file=sys.stderr, flush=True)
            self.pause_until = time.monotonic() + 0.5
            return False
        self.dirty.clear()
        for entry in changed:
            if State(entry.state).is_final:
                self._forget(entry)
        return True

    def _forget(self, entry: Entry) -> None:
        """With the last run of a request goes what only its runs needed."""
        self.open_runs[entry.request] -= 1
        if self.open_runs[entry.request]:
            return
        del self.open_runs[entry.request]
        self.requests.pop(entry.request, None)
        self.environments.pop(entry.request, None)
        sealed.remove(self.engine, entry.request)
        shutil.rmtree(os.path.join(self.engine, "work", entry.request), ignore_errors=True)


def _attempt_record(entry: Entry, result: attempts.Result) -> Dict[str, Any]:
    return {
        "number": entry.attempt,
        "state": result.state.value,
        "reason": None if result.reason is None else result.reason.value,
        "detail": result.detail,
        "exit_code": result.exit_code,
        "started_at": result.started_at or entry.started_at,
        "ended_at": result.ended_at,
        "elapsed_s": result.elapsed_s,
        "gpus": entry.gpus,
    }


def _end_record(entry: Entry) -> Dict[str, Any]:
    names = (
        "id",
        "row",
        "state",
        "reason",
        "detail",
        "exit_code",
        "started_at",
        "ended_at",
        "elapsed_s",
        "attempts",
    )
    return {name: getattr(entry, name) for name in names}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 65536):
            pass
    except BlockingIOError:
        pass


def _become_only(engine: str) -> bool:
    """Hold the supervisor's lock for life; False when another supervisor is there and listening."""
    os.makedirs(engine, mode=0o700, exist_ok=True)
    fd = os.open(os.path.join(engine, "supervisor.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _TAKEOVER_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if wake.poke(engine) or time.monotonic() > deadline:
                return False
            time.sleep(0.02)
            continue
        os.ftruncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())
        return True


def main(engine: str) -> NoReturn:
    """The program: `python -c … ENGINE_FOLDER`."""
    status = 0
    try:
        ignore_signals()
        os.chdir("/")
        if _become_only(engine):
            processes.adopt_orphans()
            gc.freeze()
            Supervisor(engine).run()
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)
