"""One node of one attempt: stage the code, run set-up, start the ranks, watch them, write how it ended.

Runs in a process of its own that nothing but a kill -9 ends early. What it writes in the node's folder is the
truth about the attempt; the process that forked it learns of the end by the process's end.
"""

from __future__ import annotations

import glob
import os
import signal
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from gofer.agent import cgroups, files, folder, gpus, launch, memory, processes, rows, spawn
from gofer.agent.states import Reason, State
from gofer.agent.watch import Ended, Outcome, Watch

ALREADY_STARTED = 3
HEARTBEAT_S = 15.0
_FIRST_HEARTBEAT_S = 2.0
_TAIL_LINES = 20


class Task(NamedTuple):
    """One node's share of an attempt. `request` is the queue's request body, `args` an array row's values."""

    request: Dict[str, Any]
    place: launch.Place
    args: Dict[str, str]
    store: str
    code: str
    environment: Dict[str, str]
    cgroup: Optional[str]


class Failed(Exception):
    """The attempt cannot go on; says how it is to be recorded."""

    def __init__(self, state: State, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.state = state
        self.reason = reason
        self.detail = detail


class Node:
    """Everything one agent process does. `stage` brings the code to the folder it is given."""

    def __init__(
        self,
        task: Task,
        *,
        stage: Callable[[Task], None],
        on_started: Callable[[float], None],
        on_orphaned: Callable[[], None],
        alive_fd: int,
    ) -> None:
        self.task = task
        self.place = task.place
        self.folder = os.path.join(
            task.store, folder.node_key(self.place.run_id, self.place.attempt, self.place.node)
        )
        self._stage = stage
        self._on_started = on_started
        self._began = time.monotonic()
        self._started_at: Optional[float] = None
        self._running_since: Optional[float] = None
        self._pids: List[int] = []
        self._kills_before = memory.kernel_kills()
        self._beats = 0
        self._watch = Watch(tick=self._heartbeat, alive_fd=alive_fd, on_orphaned=on_orphaned)

    def run(self) -> int:
        """The exit status of the agent process; the exit record is written unless the attempt was started before."""
        processes.adopt_orphans()
        os.makedirs(self.folder, exist_ok=True)
        if glob.glob(os.path.join(glob.escape(self.folder), "rank-*.log")):
            return ALREADY_STARTED
        me = processes.identify(os.getpid())
        self._event("agent", pid=os.getpid(), start=me.start if me else 0, boot=processes.boot_id())
        try:
            record = self._attempt()
        except Failed as failure:
            record = self._record(failure.state, failure.reason, failure.detail)
        except spawn.AlreadyStarted:
            return ALREADY_STARTED
        self._end_strays()
        self._write_end(record)
        return 0

    def _attempt(self) -> Dict[str, Any]:
        self._prepare()
        outcome = self._watch.run(self._start_ranks(), limit_at=self._limit_at(), grace_s=self._grace_s())
        for one in outcome.ended:
            self._event("rank-ended", rank=one.rank, exit_code=one.exit_code, signal=one.signal)
        return self._judge(outcome)

    # -- before the command

    def _prepare(self) -> None:
        os.makedirs(os.path.join(self.task.store, folder.outputs_key(self.place.run_id)), exist_ok=True)
        try:
            self._stage(self.task)
        except Exception as error:  # whatever it is, the person must read it in the record
            raise Failed(State.FAILED, Reason.STAGING, f"the code could not be staged: {error}") from error
        self._check_stopped()
        if self.task.request.get("setup"):
            self._set_up()

    def _set_up(self) -> None:
        self._event("set-up")
        script = self.task.request["setup"]
        argv = ["bash", "-euo", "pipefail", "-c", script]
        log = os.path.join(self.folder, folder.SETUP_LOG)
        command = spawn.Command(
            argv, self._environment(self.place.ranks[0]), self._workdir(), log, False, self.task.cgroup
        )
        started = spawn.start(command)
        problem = spawn.confirm(started)
        outcome = self._watch.run({started.pid: 0}, limit_at=self._limit_at(), grace_s=self._grace_s())
        self._check_stopped()
        if outcome.cause == "time-limit":
            raise Failed(State.FAILED, Reason.TIME_LIMIT, "set-up ran into the time limit")
        if outcome.first_failure:
            last = files.tail_lines(log, 1)
            detail = problem or f"set-up ended with {outcome.first_failure.status}" + (
                f": {last[0]}" if last else ""
            )
            raise Failed(State.FAILED, Reason.SETUP, detail)

    def _check_stopped(self) -> None:
        if self._watch.cause is not None:
            raise Failed(State.CANCELLED, Reason.USER, "stopped before the command was started")

    # -- the command

    def _start_ranks(self) -> Dict[int, int]:
        pids: Dict[int, int] = {}
        pending = []
        for rank in self.place.ranks:
            log = os.path.join(self.folder, folder.rank_log(rank))
            command = spawn.Command(
                self._argv(), self._environment(rank), self._workdir(), log, True, self.task.cgroup
            )
            started = spawn.start(command)
            pids[started.pid] = rank
            pending.append(started)
        for started in pending:
            spawn.confirm(started)
        self._pids = list(pids)
        self._started_at, self._running_since = time.time(), time.monotonic()
        self._event("started", pids={str(rank): pid for pid, rank in pids.items()})
        self._on_started(self._started_at)
        return pids

    def _argv(self) -> List[str]:
        command: List[str] = self.task.request["command"]
        return rows.substitute(command, self.task.args) if self.task.args else command

    def _environment(self, rank: int) -> Dict[str, str]:
        run_id, request = self.place.run_id, self.task.request
        own = {
            "GOFER_RUN_DIR": os.path.join(self.task.store, folder.run_key(run_id)),
            "GOFER_OUTPUT_DIR": os.path.join(self.task.store, folder.outputs_key(run_id)),
            "GOFER_TARGET": request["target"],
            "GOFER_TAGS": ",".join(f"{k}={v}" if v else k for k, v in request["tags"].items()),
            "PWD": self._workdir(),
        }
        return {
            **self.task.environment,
            **launch.rank_environment(self.place, rank),
            **launch.argument_environment(self.task.args),
            **own,
        }

    def _workdir(self) -> str:
        return os.path.normpath(os.path.join(self.task.code, self.task.request.get("workdir") or "."))

    def _limit_at(self) -> Optional[float]:
        limit = self.task.request.get("time_limit_s")
        return None if limit is None else self._began + float(limit)

    def _grace_s(self) -> float:
        return float(self.task.request["grace_s"])

    # -- after the command

    def _judge(self, outcome: Outcome) -> Dict[str, Any]:
        first = outcome.first_failure
        if outcome.cause == "time-limit":
            limit = self.task.request["time_limit_s"]
            return self._record(
                State.FAILED, Reason.TIME_LIMIT, f"stopped at its time limit of {limit:g} s", outcome
            )
        if outcome.cause is not None:
            words = "aborted" if outcome.cause == "user" else "stopped because another node failed"
            return self._record(State.CANCELLED, Reason.USER, words, outcome)
        if first is None:
            return self._record(State.SUCCEEDED, None, None, outcome)
        reason, words = self._explain(first)
        return self._record(State.FAILED, reason, words, outcome)

    def _explain(self, first: Ended) -> tuple[Reason, str]:
        tail = self._tail(first.rank)
        if memory.explains(first.status, kills_before=self._kills_before, tail=tail):
            return Reason.OUT_OF_MEMORY, f"rank {first.rank} ran out of memory"
        if first.signal is not None:
            return Reason.SIGNAL, f"rank {first.rank} was killed by {_signal_name(first.signal)}"
        return Reason.EXIT_CODE, f"rank {first.rank} exited with {first.exit_code}"

    def _record(
        self, state: State, reason: Optional[Reason], detail: Optional[str], outcome: Optional[Outcome] = None
    ) -> Dict[str, Any]:
        first = outcome.first_failure if outcome else None
        ended = outcome.ended if outcome else []
        worst = first or next((one for one in ended if one.failed), None)
        return {
            "node": self.place.node,
            "state": str(state),
            "reason": None if reason is None else str(reason),
            "detail": detail,
            "exit_code": worst.status if worst else (0 if state == State.SUCCEEDED else None),
            "signal": worst.signal if worst else None,
            "first_failure": self._failure(first) if first else None,
            "started_at": self._started_at,
            "ended_at": time.time(),
            "elapsed_s": 0.0 if self._running_since is None else time.monotonic() - self._running_since,
            "ranks": [
                {
                    "rank": one.rank,
                    "pid": one.pid,
                    "exit_code": one.exit_code,
                    "signal": one.signal,
                    "ended_at": one.at,
                }
                for one in sorted(ended)
            ],
        }

    def _failure(self, first: Ended) -> Dict[str, Any]:
        return {
            "rank": first.rank,
            "exit_code": first.exit_code,
            "signal": first.signal,
            "at": first.at,
            "tail": self._tail(first.rank),
        }

    def _tail(self, rank: int) -> List[str]:
        return files.tail_lines(os.path.join(self.folder, folder.rank_log(rank)), _TAIL_LINES)

    def _end_strays(self) -> None:
        """Whatever the command left behind ends here: daemons, background jobs, children that ignore signals."""
        if self.task.cgroup is not None:
            cgroups.kill(self.task.cgroup)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        me = os.getpid()
        processes.kill_until_gone(lambda table: processes.descendants(me, table))

    def _write_end(self, record: Dict[str, Any]) -> None:
        path = os.path.join(self.folder, folder.EXIT)
        files.patiently(lambda: files.write_whole(path, files.encode(record)))
        self._event("ended", state=record["state"])

    # -- what is told on the way

    def _event(self, event: str, **facts: object) -> None:
        """Events help to understand; a full disk may lose one, never the exit record."""
        line = files.encode({"at": time.time(), "event": event, **facts}) + b"\n"
        try:
            files.append(os.path.join(self.folder, folder.EVENTS), line)
        except OSError:
            pass

    def _heartbeat(self) -> float:
        """Seconds until the next one. The first tick comes at once and writes nothing: most commands are short."""
        self._beats += 1
        self._kills_before = memory.kernel_kills()
        if self._beats == 1:
            return _FIRST_HEARTBEAT_S
        beat = {
            "at": time.time(),
            "gpus": gpus.sample(self.place.gpus or []),
            "rss_mib": _resident_mib(self._pids),
        }
        try:
            files.write_whole(os.path.join(self.folder, folder.HEARTBEAT), files.encode(beat))
        except OSError:
            pass
        return HEARTBEAT_S


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"


def _resident_mib(pids: List[int]) -> int:
    table = processes.all_processes()
    wanted = set(pids)
    for pid in pids:
        wanted |= processes.descendants(pid, table)
    pages = 0
    for pid in wanted:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                pages += int(file.read().split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20
