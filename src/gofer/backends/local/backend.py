"""The local backend: this machine's queue behind the backend contract."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

import msgspec

from gofer.agent import files, sealed, wake
from gofer.agent import gpus as driver
from gofer.agent.queue import Queue, Seen
from gofer.backends.base import Plan, RunRef
from gofer.backends.local.options import LocalOptions
from gofer.backends.local.request import LocalPlan, make_plan
from gofer.errors import BackendError, CheckFailed
from gofer.model.job import Job
from gofer.model.layout import Layout, lay_out
from gofer.model.run import Attempt, Observation, RunRecord

# One command needs a supervisor once, or once more when it was killed meanwhile.
_MOST_STARTS = 20


class LocalBackend:
    """One local target. All local targets of a user share one queue, and so the same GPUs and CPUs."""

    kind = "local"

    def __init__(self, target: str, options: LocalOptions, *, engine: str, store: str) -> None:
        self.target = target
        self.engine = engine
        self.store = store
        self._options = options
        self._gpus: int | None = None
        self._started = 0

    @property
    def gpus(self) -> int:
        """GPUs to hand out: the target's word, or the driver's; CheckFailed when they contradict each
        other.
        """
        if self._gpus is None:
            shown = driver.count()
            asked = self._options.gpus
            if asked is not None and shown and asked > shown:
                raise CheckFailed(
                    f"the target `{self.target}` says `gpus: {asked}` and this machine has {shown}",
                    hint=f"set `gpus: {shown}` in the target, or leave it out",
                )
            self._gpus = shown if asked is None else asked
        return self._gpus

    @property
    def gpus_per_node(self) -> int:
        return min(self._options.gpus_per_node or self.gpus, self.gpus)

    def lay_out(self, job: Job) -> Layout:
        if job.launcher != "spawn":
            raise CheckFailed(
                f"the target `{self.target}` cannot start processes by `launcher: {job.launcher}`",
                hint="leave `launcher` out: gofer starts them, with the variables that launchers set",
            )
        if self.gpus and job.resources.gpus > self.gpus:
            raise CheckFailed(
                f"the target `{self.target}` has {self.gpus} GPUs and {job.resources.gpus} were asked for",
                hint=f"ask for at most {self.gpus} with `-n`, or choose another target with `-t`",
            )
        layout = lay_out(job, gpus_per_node=self.gpus_per_node, target=self.target)
        cores = len(os.sched_getaffinity(0))
        needed = layout.world_size * layout.cpus_per_proc
        if job.resources.cpus is not None and needed > cores:
            raise CheckFailed(
                f"the target `{self.target}` has {cores} CPU cores and {needed} were asked for",
                hint="ask for fewer with `--cpus`",
            )
        return layout

    def plan(self, record: RunRecord) -> LocalPlan:
        return make_plan(record, store=self.store, gpus=self.gpus, block=self.gpus_per_node)

    def seal(self, run_id: str, values: Mapping[str, str]) -> None:
        sealed.write(self.engine, run_id, values)

    def drop_seals(self, is_recorded: Callable[[str], bool]) -> None:
        for path, run_id in sealed.abandoned(self.engine).items():
            if not is_recorded(run_id):
                files.remove(path)

    def submit(self, plan: Plan) -> None:
        local = cast(LocalPlan, plan)
        sealed.confirm(self.engine, local.record.id)
        with self._queue() as queue:
            queue.add(msgspec.to_builtins(local.request), local.runs())
        self._wake()

    def observe(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        """Asks the queue's file, so a supervisor need not run; one is started if open runs need it."""
        wanted = list(dict.fromkeys(run.group or run.id for run in runs))
        with self._queue() as queue:
            found = {seen.id: _observation(seen) for seen in queue.observe(wanted)}
            if any(not one.state.is_final for one in found.values()):
                self._wake()
        return found

    def cancel(self, runs: Sequence[RunRef], *, grace_s: float | None = None) -> None:
        with self._queue() as queue:
            queue.ask_cancel([run.id for run in runs], grace_s)
        self._wake()

    def describe(self) -> dict[str, object]:
        with self._queue() as queue:
            counts = queue.counts()
        return {
            "gpus": self.gpus,
            "gpus_per_node": self.gpus_per_node,
            "cpus": len(os.sched_getaffinity(0)),
            "running": counts.get("running", 0) + counts.get("starting", 0),
            "queued": counts.get("queued", 0),
            "usage": driver.sample(),
        }

    def _wake(self) -> None:
        """Have a supervisor at work; BackendError when those that were started do not stay."""
        if wake.ensure(self.engine) is not None:
            self._started += 1
        if self._started > _MOST_STARTS:
            log = os.path.join(self.engine, "supervisor.log")
            words = "".join(files.tail_lines(log, 1)) or "no reason is known"
            raise BackendError(
                f"the supervisor of this machine's queue does not stay up: {words}",
                hint=f"its log is `{log}`; `gofer doctor` checks more",
            )

    @contextmanager
    def _queue(self) -> Iterator[Queue]:
        try:
            queue = Queue(self.engine)
        except (OSError, sqlite3.Error) as error:
            raise _unusable(self.engine, error) from error
        try:
            yield queue
        except sqlite3.Error as error:
            raise _unusable(self.engine, error) from error
        finally:
            queue.close()


def _unusable(engine: str, error: Exception) -> BackendError:
    return BackendError(
        f"this machine's queue in `{engine}` cannot be used: {error}",
        hint="make the folder writable, or set `GOFER_HOME` to one that is",
    )


def _observation(seen: Seen) -> Observation:
    attempts = tuple(msgspec.convert(one, Attempt) for one in seen.attempts)
    facts = {name: value for name, value in seen._asdict().items() if name not in ("id", "attempts")}
    return msgspec.convert({"run_id": seen.id, "attempts": attempts, **facts}, Observation)
