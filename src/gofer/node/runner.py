"""One node of one attempt: stage the code, run set-up, start the ranks, watch them, write the exit record.

This runs in an agent process, which only kill -9 can end early. The files in the node's folder decide how the
attempt ended.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Callable

from gofer.core import attempts, files, processes, run_layout
from gofer.core.command.launcher_options import Launched, write_hostfiles
from gofer.core.outcome import Outcome
from gofer.core.secrets import secret_files
from gofer.core.states import Reason, State
from gofer.core.store_spec import StoreSpec
from gofer.node import background, cancellable_task, continued_files, exit_record, mpi, spawn
from gofer.node import failure_advice as advice
from gofer.node.code import beside_copy
from gofer.node.code.stage import with_sent_files
from gofer.node.code.working_copy import Changes
from gofer.node.events import EventLog
from gofer.node.exit_record import Abandoned, AttemptFailed, RunningSince
from gofer.node.folders.mapped import FolderFailed, FolderStopped, MappedFolders
from gofer.node.heartbeat import HeartbeatWriter
from gofer.node.kept.keeper import FileKeeper
from gofer.node.kept.limit import Keeping
from gofer.node.kept.records import KeptFiles
from gofer.node.log_times import LogTimesWriter
from gofer.node.rendezvous.base import Rendezvous
from gofer.node.task import Task
from gofer.node.watch import ProcessEnd, Watch, WatchResult

if TYPE_CHECKING:
    from gofer.node.code.row_folders import RowFolders
    from gofer.node.mpi import Mpirun
    from gofer.node.packages.provide import Provided
    from gofer.node.uploader.restore import EarlierOutputs

ALREADY_STARTED = 3
ABANDONED = 4
_TAIL_LINES = 20
_LOOK_S = 0.1


class Node:
    """Runs one node's share of an attempt, from staging the code to writing the exit record.

    `stage` copies the code into the folder of a task. `folders` are the mapped folders of this share.
    `report` sends a line to the supervisor. `spared` are child processes of the agent that do not belong to
    the run. `earlier_outputs` are the outputs of earlier attempts, which this machine may not have. `rows`
    has the working copy of an array's row. `keeping` says where files of the working copy are kept.
    `rendezvous` must be set before `run`.
    """

    rendezvous: Rendezvous
    earlier_outputs: EarlierOutputs | None = None
    rows: RowFolders | None = None
    keeping = Keeping()
    # Set by `run`: whether no process of the share is left, and how the working copy changed, if it was
    # compared.
    is_clear = True
    changes: Changes | None = None
    # Where built packages are cached on this node, and the object store for them if the disk does not outlive
    # the run.
    package_cache: str = ""
    is_alone = False  # If the agent is in a container, whether this run is the only one in it.
    package_store: StoreSpec | None = None

    def __init__(
        self,
        task: Task,
        *,
        watch: Watch,
        cgroup: str | None,
        stage: Callable[[Task], None],
        folders: MappedFolders,
        report: Callable[[str], None],
        spared: set[int],
    ) -> None:
        self.task = task
        self.place = task.place
        self.cgroup = cgroup
        self.folder = os.path.join(
            task.store, run_layout.node_key(self.place.run_id, self.place.attempt, self.place.node)
        )
        self._watch = watch
        self._stage = with_sent_files(stage)
        self._folders = folders
        self._report = report
        self._spared = spared
        self._began = time.monotonic()
        self._running: RunningSince | None = None
        self._pids: list[int] = []
        self._event_log = EventLog(self.folder)
        self._heartbeat = HeartbeatWriter(self._event_log, self.place.gpus, is_alone=self.is_alone)
        self._log_times = LogTimesWriter(self.folder)
        self._limits = (task.private.limits, self._event_log.note_limits)
        self._mpirun: Mpirun | None = None
        self._services: set[processes.ProcessIdentity] = set()
        self._keeper: FileKeeper | None = None
        self._packages: Provided | None = None
        self._beside: set[str] = set()  # the names beside the working copy before the command

    def run(self) -> int:
        """Run the share. Blocks. 0 when the exit record is written; ALREADY_STARTED when an earlier agent
        began this share; ABANDONED when the share was given up before any command was started.
        """
        files.retry_while_full(lambda: os.makedirs(self.folder, exist_ok=True))
        try:
            return ALREADY_STARTED if self._was_taken_up() else self._run()
        finally:
            self._folders.release()
            if self._packages is not None:
                os.close(self._packages.held)
            if self._keeper is not None:
                self._keeper.close()
                self.changes = self._keeper.changes
            self._event_log.close()

    def _was_taken_up(self) -> bool:
        """Whether another agent started ranks of this share, or is alive and may be about to."""
        if any(name.startswith("rank-") for name in os.listdir(self.folder)):
            return True
        earlier = attempts.agent_of(self.task.store, *self.place[:3])
        return earlier is not None and earlier.pid != os.getpid() and processes.is_alive(earlier)

    def _run(self) -> int:
        me = processes.identify(os.getpid())
        about = {"host": os.uname().nodename, "ranks": list(self.place.ranks), "gpus": self.place.gpus}
        self._event_log.note("agent", pid=os.getpid(), start=me.start if me else 0, **about)
        watched = None
        try:
            self._prepare()
            watched = self._run_ranks()
            found = self._judge(watched)
            if watched.cause is None:
                left = background.left_running(self._services, spared=self._spared)
                found = background.name_in(found, left, self.task.argv, self._event_log.note)
        except AttemptFailed as failure:
            found = failure.outcome
        except spawn.AlreadyStarted:
            return ALREADY_STARTED
        except Abandoned:
            self.is_clear = background.end(self.cgroup, spared=self._spared)
            self._event_log.note("abandoned")
            return ABANDONED
        self.is_clear = background.end(self.cgroup, spared=self._spared)
        self._write_end(self._finished(found), watched)
        return 0

    def _run_ranks(self) -> WatchResult:
        pids, failed = self._start_ranks()
        watched = self._watched(pids, failed) if self.place.ranks else self._wait_for_first_node()
        if self._mpirun is not None:
            self._mpirun.close()
        for one in watched.ended:
            self._event_log.note("rank-ended", rank=one.rank, exit_code=one.exit_code, signal=one.signal)
        return watched

    def _watched(self, pids: dict[int, int], failed: ProcessEnd | None) -> WatchResult:
        return self._watch.run(
            pids,
            failed,
            limit_at=self._limit_at,
            grace_s=float(self.task.request.grace_s),
            tick=self._tick,
        )

    def _wait_for_first_node(self) -> WatchResult:
        """Wait on a node without ranks: the command runs on the first node, and may use this node until it
        ends.
        """
        return self._watch.hold(
            limit_at=self._limit_at, tick=self._tick, is_over=lambda: self.rendezvous.has_ended(0)
        )

    # -- before the command

    def _prepare(self) -> None:
        self._join_peers()
        files.retry_while_full(lambda: os.makedirs(self.task.output_folder, exist_ok=True))
        self._stage_code()
        self._check_stopped()
        self._bring_folders()
        keeper = self._keeper = FileKeeper(self.task, self.place, self.keeping)
        rows = self.rows
        if rows is None:
            keeper.prepare(None, self._event_log.note)
        else:
            keeper.prepare(rows.contents, self._event_log.note, lambda: rows.contents_file)
        os.chdir(self.task.workdir)
        if self.task.request.packages != "none" and self.package_cache:
            self._provide_packages()
        if self.task.request.setup:
            self._set_up()
            self._services = background.children_of_this_process(self._spared)
        keeper.begin(self._spared)
        self._beside = beside_copy.list_names(self.task.code)
        if self.place.first_node_only and not self.rendezvous.wait_until_prepared(self._keep_on):
            self._check_stopped()
            raise self._late("while the other nodes were prepared")

    def _join_peers(self) -> None:
        membership = self.rendezvous.membership or self.rendezvous.join()
        if membership is None:
            self._check_stopped()
            raise Abandoned
        self.place = self.place._replace(hosts=membership.hosts, port=membership.port)

    def _stage_code(self) -> None:
        try:
            if self.rows is not None and self.rows.is_fetched:
                pass
            elif self.task.private.store is None:
                self._stage(self.task)
            else:  # a download may take long, so do it in a child process that a request to stop can end
                cancellable_task.run(
                    lambda send_message: self._stage(self.task),
                    on_message=lambda message: None,
                    keep_on=self._keep_on,
                )
            if self.rows is not None:
                self.rows.prepare()
            secret_files.write(self.task.code, self.task.private.files or {})
        except cancellable_task.WorkStopped:
            self._check_stopped()
            raise self._late("while the code was staged") from None
        except Exception as error:  # any error must appear in the record, where the person can read it
            raise AttemptFailed(
                Outcome(State.FAILED, Reason.STAGING, f"the code could not be staged: {error}")
            ) from error

    def _bring_folders(self) -> None:
        try:
            if self.earlier_outputs is not None:
                log = os.path.join(self.folder, run_layout.SETUP_LOG)
                self.earlier_outputs.bring(log, self._event_log.note, self._keep_on)
            continued_files.bring(self.task, self._keep_on)
            self._folders.bring(self._event_log.note, self._keep_on)
        except FolderStopped as stopped:
            self._check_stopped()
            raise self._late(str(stopped)) from None
        except FolderFailed as failure:
            raise AttemptFailed(Outcome(State.FAILED, Reason.STAGING, str(failure))) from failure

    def _keep_on(self, fd: int) -> bool:
        """Wait a moment, or until `fd` can be read; False when the run must stop."""
        self._watch.wait(fd, _LOOK_S)
        is_late = self._limit_at is not None and time.monotonic() >= self._limit_at
        return self._watch.cause is None and not is_late

    @property
    def _limit_at(self) -> float | None:
        limit = self.task.request.time_limit_s
        return None if limit is None else self._began + float(limit)

    def _late(self, when: str) -> AttemptFailed:
        return AttemptFailed(Outcome(State.FAILED, Reason.TIME_LIMIT, f"the time limit was reached {when}"))

    def _provide_packages(self) -> None:
        """Provide the packages, and add their variables to the task."""
        from gofer.node.packages import provide

        log = os.path.join(self.folder, run_layout.SETUP_LOG)
        wanted = provide.wanted_by(self.task, self.place, self.package_cache, self.package_store, log)
        try:
            self._packages = provide.provide(wanted, self._event_log.note, self._keep_on)
        except cancellable_task.WorkStopped:
            self._check_stopped()
            raise self._late("while the packages were built") from None
        except (provide.PackagesFailed, OSError) as failure:
            raise AttemptFailed(Outcome(State.FAILED, Reason.SETUP, str(failure))) from failure
        if self._packages is not None:
            self.task = self._packages.added_to(self.task)

    def _set_up(self) -> None:
        self._event_log.note("set-up")
        log = os.path.join(self.folder, run_layout.SETUP_LOG)
        argv = ["bash", "-euo", "pipefail", "-c", self.task.request.setup or ""]
        environment = self.task.environment(self.place, self.place.first_rank, {})
        try:
            pid = spawn.start(spawn.RankCommand(argv, environment, log, False, *self._limits))
        except spawn.CannotRun as problem:
            raise AttemptFailed(Outcome(State.FAILED, Reason.SETUP, str(problem))) from problem
        watched = self._watched({pid: 0}, None)
        self._check_stopped()
        if watched.cause == "time-limit":
            raise AttemptFailed(Outcome(State.FAILED, Reason.TIME_LIMIT, "set-up reached the time limit"))
        first = watched.first_failure
        if first:
            words = ": ".join([f"set-up ended with {first.status}", *self._last_lines(log, 1)])
            raise AttemptFailed(Outcome(State.FAILED, Reason.SETUP, words))

    def _check_stopped(self) -> None:
        if self._watch.cause in ("peer", "shutdown"):
            raise Abandoned
        if self._watch.cause is not None:
            raise AttemptFailed(
                Outcome(State.CANCELLED, Reason.USER, "stopped before the command was started")
            )

    # -- the command

    def _start_ranks(self) -> tuple[dict[int, int], ProcessEnd | None]:
        """Start the ranks: (rank by pid, the first rank that could not be started). After such a rank no
        other is started.
        """
        pids: dict[int, int] = {}
        failed = None
        from_mpi = self._ask_mpirun() if self.task.request.launcher == "mpi" else {}
        launched = self._launched()
        for rank in self.place.ranks:
            log = os.path.join(self.folder, run_layout.rank_log(rank))
            more = {**launched.environment, **from_mpi.get(rank, {})}
            environment = self.task.environment(self.place, rank, more)
            try:
                stdin = self.task.stdin_of(rank)
                command = spawn.RankCommand(launched.argv, environment, log, True, *self._limits, stdin=stdin)
                pids[spawn.start(command)] = rank
            except spawn.CannotRun as problem:
                failed = ProcessEnd(rank, 0, problem.status, None, time.time())
                break
        self._pids = list(pids)
        self._running = RunningSince(time.time(), time.monotonic())
        self._event_log.note("started", pids={str(rank): pid for pid, rank in pids.items()})
        self._report(f"started {self._running.at!r}")
        return pids, failed

    def _launched(self) -> Launched:
        """The command as it is started on this node. Writes the hostfiles for a launcher that reaches the
        other nodes.
        """
        launched = self.task.launched(self.place)
        if "GOFER_HOSTFILE" in launched.environment:
            write_hostfiles(self.place, self.task.launch_resources)
        return launched

    def _ask_mpirun(self) -> dict[int, dict[str, str]]:
        """The variables that mpirun adds for each rank."""
        log = os.path.join(self.folder, mpi.LOG)
        self._mpirun = mpi.Mpirun(self.place, self.task.private.environment, log)
        try:
            return self._mpirun.gather(self._keep_on)
        except mpi.MpiStopped:
            self._check_stopped()
            raise self._late("while mpirun prepared the ranks") from None
        except mpi.MpiFailed as failure:
            raise AttemptFailed(Outcome(State.FAILED, Reason.SETUP, str(failure))) from failure

    # -- after the command

    def _tail(self, rank: int, count: int = _TAIL_LINES) -> list[str]:
        return self._last_lines(os.path.join(self.folder, run_layout.rank_log(rank)), count)

    def _last_lines(self, log: str, count: int) -> list[str]:
        """The last lines of a log for a record, with secrets masked."""
        mask = self.task.private.mask()
        return files.tail_lines(log, count, clean_after=mask.clean_after, margin=mask.margin)

    def _judge(self, watched: WatchResult) -> Outcome:
        limit_s, kills = self.task.request.time_limit_s, self._heartbeat.kills
        found = exit_record.judge(watched, tail=self._tail, kills=kills, limit_s=limit_s)
        if found.reason != Reason.EXIT_CODE or watched.first_failure is None:
            return found
        built = self._packages.file if self._packages is not None else None
        lines = self._tail(watched.first_failure.rank, advice.LINES)
        return found.with_detail(advice.advise(self.task, self.place, lines, built))

    def _finished(self, found: Outcome) -> Outcome:
        """Finish the mapped folders, and add the result to the outcome, which also names what was written
        beside the copy. Files that could not be sent make the run fail.
        """
        is_sent = self._folders.sends_working_copy and self._running is not None
        written = self._keeper.list_written() if is_sent and self._keeper is not None else []
        started = self._running is not None
        problem = self._folders.finish(self._event_log.note, started=started, written=written)
        found = found.with_detail("; ".join(self._folders.notes))
        if self._running is not None:
            new = beside_copy.list_names(self.task.code) - self._beside
            found = beside_copy.name_lost(found, sorted(new))
        if problem is None:
            return found
        if found.state == State.SUCCEEDED:
            return Outcome(State.FAILED, Reason.STAGING, problem)
        return found.with_detail(problem)

    def _write_end(self, found: Outcome, watched: WatchResult | None) -> None:
        path = os.path.join(self.folder, run_layout.EXIT)
        record = exit_record.encode(
            self.place.node, found, watched=watched, tail=self._tail, running=self._running
        )
        keeper = self._keeper if self._running is not None else None
        record["kept"] = (keeper.finish(self._event_log.note) if keeper else KeptFiles()).encode()
        os.makedirs(os.path.dirname(path), exist_ok=True)  # the command may have removed it
        files.retry_while_full(lambda: files.write_whole(path, files.encode(record)))
        self._event_log.note("ended", state=record["state"])

    # -- heartbeats

    def _tick(self) -> float:
        """Write a heartbeat if one is due, and check the other nodes; the seconds until the next call."""
        wait_s = self._heartbeat.tick(self._pids, has_failed=self._watch.has_failed)
        self._log_times.tick(self.place.ranks if self._pids else ())
        interval_s = self.rendezvous.watch_interval_s
        if interval_s is None:
            return wait_s
        if self.rendezvous.watch() is not None:
            self._watch.stop_for_peer()
        return min(interval_s, wait_s)
