"""One node of one attempt: stage the code, run set-up, start the ranks, watch them, write how it ended.

Runs in an agent process, which nothing but a kill -9 ends early. What it writes in the node's folder is the
truth about the attempt.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Callable

from gofer.agent import attempts, chore, files, folder, memory, processes, span, spawn, strays, verdict
from gofer.agent.diary import Diary
from gofer.agent.gathering import wait_for_peers
from gofer.agent.mapped import FolderFailed, FolderStopped, MappedFolders
from gofer.agent.states import Reason, State
from gofer.agent.task import Task
from gofer.agent.verdict import Running, Verdict
from gofer.agent.watch import Ended, Outcome, Watch

if TYPE_CHECKING:
    from gofer.agent.mpi import Mpirun
    from gofer.agent.past import Past

ALREADY_STARTED = 3
ABANDONED = 4
HEARTBEAT_S = 10.0
_FIRST_HEARTBEAT_S = 2.0
_PEER_LOOK_S = 1.0
_TAIL_LINES = 20
_LOOK_S = 0.1


class Failed(Exception):
    """The attempt cannot go on; says how it is to be recorded."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.detail)
        self.verdict = verdict


class Abandoned(Exception):
    """Another node of the attempt is not there, and nothing was started here: the attempt begins anew."""


class Node:
    """One share of a run, from the code to the exit record.

    `stage` brings the code to the folder it is given, `folders` are the mapped ones of this share, `tell`
    reaches the supervisor, `spared` are children of the agent that are not the run's. `past` is where earlier
    attempts left outputs that this machine may not have.
    """

    past: Past | None = None

    def __init__(
        self,
        task: Task,
        *,
        watch: Watch,
        cgroup: str | None,
        stage: Callable[[Task], None],
        folders: MappedFolders,
        tell: Callable[[str], None],
        spared: set[int],
    ) -> None:
        self.task = task
        self.place = task.place
        self.cgroup = cgroup
        self.folder = os.path.join(
            task.store, folder.node_key(self.place.run_id, self.place.attempt, self.place.node)
        )
        self._watch = watch
        self._stage = stage
        self._folders = folders
        self._tell = tell
        self._spared = spared
        self._began = time.monotonic()
        self._running: Running | None = None
        self._pids: list[int] = []
        self._kills_before = memory.kernel_kills()
        self._beats = 0
        self._beat_at = 0.0
        self._diary = Diary(self.folder)
        self._mpirun: Mpirun | None = None

    def run(self) -> int:
        """0 when the exit record is written; ALREADY_STARTED when this share was taken up before; ABANDONED
        when it was given up before anything was started.
        """
        files.patiently(lambda: os.makedirs(self.folder, exist_ok=True))
        try:
            return ALREADY_STARTED if self._was_taken_up() else self._run()
        finally:
            self._folders.release()
            self._diary.close()

    def _was_taken_up(self) -> bool:
        """By an agent that started ranks, or by one that is alive and may be about to."""
        if any(name.startswith("rank-") for name in os.listdir(self.folder)):
            return True
        earlier = attempts.agent_of(self.task.store, *self.place[:3])
        return earlier is not None and earlier.pid != os.getpid() and processes.is_alive(earlier)

    def _run(self) -> int:
        me = processes.identify(os.getpid())
        self._diary.note("agent", pid=os.getpid(), start=me.start if me else 0)
        outcome = None
        try:
            self._prepare()
            outcome = self._run_ranks()
            found = self._judge(outcome)
        except Failed as failure:
            found = failure.verdict
        except spawn.AlreadyStarted:
            return ALREADY_STARTED
        except Abandoned:
            strays.end(self.cgroup, spared=self._spared)
            self._diary.note("abandoned")
            return ABANDONED
        strays.end(self.cgroup, spared=self._spared)
        self._write_end(self._finished(found), outcome)
        return 0

    def _run_ranks(self) -> Outcome:
        pids, failed = self._start_ranks()
        outcome = self._watched(pids, failed)
        if self._mpirun is not None:
            self._mpirun.close()
        for one in outcome.ended:
            self._diary.note("rank-ended", rank=one.rank, exit_code=one.exit_code, signal=one.signal)
        return outcome

    def _watched(self, pids: dict[int, int], failed: Ended | None) -> Outcome:
        return self._watch.run(
            pids,
            failed,
            limit_at=self._limit_at,
            grace_s=float(self.task.request["grace_s"]),
            tick=self._tick,
        )

    # -- before the command

    def _prepare(self) -> None:
        self._meet_peers()
        outputs = os.path.join(self.task.store, folder.outputs_key(self.place.run_id))
        files.patiently(lambda: os.makedirs(outputs, exist_ok=True))
        self._stage_code()
        self._check_stopped()
        self._bring_folders()
        os.chdir(self.task.workdir)
        if self.task.request.get("setup"):
            self._set_up()

    def _meet_peers(self) -> None:
        if self.task.spans:
            met = span.Gathering(self.task.store, self.place, self._watch).meet()
            self.place = met or self.place
            is_alone = met is None
        else:
            # Without a supervisor, whoever started this node started all of them.
            has_to = self._watch.has_supervisor
            is_alone = has_to and not wait_for_peers(self.task.store, self.place, self._watch)
        if is_alone:
            self._check_stopped()
            raise Abandoned

    def _stage_code(self) -> None:
        try:
            if self.task.private.store is None:
                self._stage(self.task)
            else:  # it comes over a network, and whoever wants to stop the run need not wait for that
                chore.do(lambda say: self._stage(self.task), hear=lambda message: None, keep_on=self._keep_on)
        except chore.ChoreStopped:
            self._check_stopped()
            raise self._late("while the code was brought") from None
        except Exception as error:  # whatever it is, the person must read it in the record
            raise Failed(
                Verdict(State.FAILED, Reason.STAGING, f"the code could not be staged: {error}")
            ) from error

    def _bring_folders(self) -> None:
        try:
            if self.past is not None:
                log = os.path.join(self.folder, folder.SETUP_LOG)
                self.past.bring(log, self._diary.note, self._keep_on)
            self._folders.bring(self._diary.note, self._keep_on)
        except FolderStopped as stopped:
            self._check_stopped()
            raise self._late(str(stopped)) from None
        except FolderFailed as failure:
            raise Failed(Verdict(State.FAILED, Reason.STAGING, str(failure))) from failure

    def _keep_on(self, fd: int) -> bool:
        """Waits for the descriptor, not for long; False when it is time to stop."""
        self._watch.wait(fd, _LOOK_S)
        is_late = self._limit_at is not None and time.monotonic() >= self._limit_at
        return self._watch.cause is None and not is_late

    @property
    def _limit_at(self) -> float | None:
        limit = self.task.request["time_limit_s"]
        return None if limit is None else self._began + float(limit)

    def _late(self, when: str) -> Failed:
        return Failed(Verdict(State.FAILED, Reason.TIME_LIMIT, f"the time limit came {when}"))

    def _set_up(self) -> None:
        self._diary.note("set-up")
        log = os.path.join(self.folder, folder.SETUP_LOG)
        argv = ["bash", "-euo", "pipefail", "-c", self.task.request["setup"]]
        environment = self.task.environment(self.place, self.place.ranks[0], {})
        try:
            pid = spawn.start(spawn.Command(argv, environment, log, fenced=False))
        except spawn.CannotRun as problem:
            raise Failed(Verdict(State.FAILED, Reason.SETUP, str(problem))) from problem
        outcome = self._watched({pid: 0}, None)
        self._check_stopped()
        if outcome.cause == "time-limit":
            raise Failed(Verdict(State.FAILED, Reason.TIME_LIMIT, "set-up ran into the time limit"))
        if outcome.first_failure:
            words = ": ".join(
                [f"set-up ended with {outcome.first_failure.status}", *files.tail_lines(log, 1)]
            )
            raise Failed(Verdict(State.FAILED, Reason.SETUP, words))

    def _check_stopped(self) -> None:
        if self._watch.cause in ("peer", "shutdown"):
            raise Abandoned
        if self._watch.cause is not None:
            raise Failed(Verdict(State.CANCELLED, Reason.USER, "stopped before the command was started"))

    # -- the command

    def _start_ranks(self) -> tuple[dict[int, int], Ended | None]:
        """The ranks by pid, and the first that could not be run, behind which none is tried."""
        pids: dict[int, int] = {}
        failed = None
        from_mpi = self._ask_mpirun() if self.task.request.get("launcher") == "mpi" else {}
        for rank in self.place.ranks:
            log = os.path.join(self.folder, folder.rank_log(rank))
            environment = self.task.environment(self.place, rank, from_mpi.get(rank, {}))
            try:
                command = spawn.Command(self.task.argv, environment, log, fenced=True)
                pids[spawn.start(command)] = rank
            except spawn.CannotRun as problem:
                failed = Ended(rank, 0, problem.status, None, time.time())
                break
        self._pids = list(pids)
        self._running = Running(time.time(), time.monotonic())
        self._diary.note("started", pids={str(rank): pid for pid, rank in pids.items()})
        self._tell(f"started {self._running.at!r}")
        return pids, failed

    def _ask_mpirun(self) -> dict[int, dict[str, str]]:
        """What mpirun adds to the environment of each rank."""
        from gofer.agent import mpi  # few runs need it

        log = os.path.join(self.folder, mpi.LOG)
        self._mpirun = mpi.Mpirun(self.place, self.task.private.environment, log)
        try:
            return self._mpirun.gather(self._keep_on)
        except mpi.MpiStopped:
            self._check_stopped()
            raise self._late("while mpirun prepared the ranks") from None
        except mpi.MpiFailed as failure:
            raise Failed(Verdict(State.FAILED, Reason.SETUP, str(failure))) from failure

    # -- after the command

    def _tail(self, rank: int) -> list[str]:
        return files.tail_lines(os.path.join(self.folder, folder.rank_log(rank)), _TAIL_LINES)

    def _judge(self, outcome: Outcome) -> Verdict:
        limit_s = self.task.request["time_limit_s"]
        return verdict.judge(outcome, tail=self._tail, kills_before=self._kills_before, limit_s=limit_s)

    def _finished(self, found: Verdict) -> Verdict:
        """With what became of the folders: results that did not reach the store are a failure."""
        problem = self._folders.finish(self._diary.note, started=self._running is not None)
        if problem is None:
            return found
        if found.state == State.SUCCEEDED:
            return Verdict(State.FAILED, Reason.STAGING, problem)
        return found._replace(detail="; ".join(one for one in (found.detail, problem) if one))

    def _write_end(self, found: Verdict, outcome: Outcome | None) -> None:
        path = os.path.join(self.folder, folder.EXIT)
        record = verdict.exit_record(
            self.place.node, found, outcome=outcome, tail=self._tail, running=self._running
        )
        files.patiently(lambda: files.write_whole(path, files.encode(record)))
        self._diary.note("ended", state=record["state"])

    # -- what is told on the way

    def _tick(self) -> float:
        """Seconds until the next one."""
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat_at = now + self._heartbeat()
        if not self.task.spans:
            return self._beat_at - now
        if span.another_failed(self.task.store, self.place):
            self._watch.stop_for_peer()
        return min(_PEER_LOOK_S, self._beat_at - now)

    def _heartbeat(self) -> float:
        """Seconds until the next one.

        The first tick comes at once and writes nothing: most commands are short.
        """
        self._beats += 1
        if self._beats == 1:
            return _FIRST_HEARTBEAT_S
        if not self._watch.has_failed:
            # Kept from the failure on: its explanation must not grow old while the other ranks are stopped.
            self._kills_before = memory.kernel_kills()
        self._diary.beat(self.place.gpus or [], self._pids)
        return HEARTBEAT_S
