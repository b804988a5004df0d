"""Moves jobs along: NotStarted to Queued, Queued to Preparing when there is room; and cancels them."""

from __future__ import annotations

import threading

from simulators.azure.attempt import SimulatedAttemptContext, run_attempt
from simulators.azure.capacity import need_of, place_for
from simulators.azure.jobs import ACTIVE, ENDED, SimulatedJob
from simulators.azure.messages import Refused
from simulators.azure.node_processes import end_all

_AGAIN_S = 1.0


class Scheduler:
    """One thread; woken by every change of a job."""

    def __init__(self, setting: SimulatedAttemptContext) -> None:
        self._setting = setting
        self._jobs = setting.jobs
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        # Held: jobs stay queued whatever room there is.
        self.held = False

    def start(self) -> None:
        """Takes up what a simulator before this one left: what was running then goes back into the queue."""
        found = [job for job in self._jobs.all() if job.status in ACTIVE and not job.left]
        if found:
            end_all(self._setting.identity_secret)
        for job in found:
            job.pids, job.nodes = {}, []
            self._jobs.become(job, "Canceled" if job.status == "CancelRequested" else "Queued")
        self._thread.start()

    def stop(self) -> None:
        with self._jobs.changed:
            self._ended = True
            self._jobs.changed.notify_all()

    def cancel(self, job: SimulatedJob) -> None:
        """At once when nothing runs yet; otherwise after the processes got SIGTERM."""
        with self._jobs.changed:
            if job.status in ENDED:
                return
            if job.status in ACTIVE and not job.left:
                job.wish = "cancel"
                self._jobs.become(job, "CancelRequested")
            else:
                self._jobs.become(job, "Canceled")

    def _run(self) -> None:
        with self._jobs.changed:
            while not self._ended:
                if not self._step():
                    self._jobs.changed.wait(_AGAIN_S)

    def _step(self) -> bool:
        """Whether something changed, so that there may be more to do."""
        jobs = [job for job in self._jobs.all() if job.status not in ENDED and not job.left]
        for job in jobs:
            if job.status == "NotStarted":
                self._jobs.become(job, "Queued")
                return True
        if self.held:
            return False
        blocked: set[str] = set()
        for job in sorted((job for job in jobs if job.status == "Queued"), key=lambda job: job.seq):
            if self._begin(job, jobs, blocked):
                return True
        return False

    def _begin(self, job: SimulatedJob, jobs: list[SimulatedJob], blocked: set[str]) -> bool:
        """First come, first served in each pool: one that waits holds up those behind it."""
        try:
            need = need_of(job, self._setting.documents)
        except Refused as error:
            self._jobs.become(job, "Failed", error=error.answer.body["error"])
            return True
        queue = f"{need.pool} {need.series} {need.tier}"
        if queue in blocked:
            return False
        found = place_for(job, need, self._setting.documents, jobs)
        if found is None:
            blocked.add(queue)
            return False
        job.nodes, job.location = found
        job.attempt += 1
        self._jobs.become(job, "Preparing")
        run_attempt(self._setting, job)
        return True
