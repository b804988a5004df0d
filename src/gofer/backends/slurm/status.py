"""The state of each run: Slurm's job states in gofer's terms, and Slurm's answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gofer.backends.base import RunRef
from gofer.backends.polling import ClusterAnswer
from gofer.backends.scheduled import forgotten, from_end
from gofer.core.json_text import parse_count
from gofer.core.states import Reason, State
from gofer.model.ids import short_id
from gofer.model.run import Observation


class SlurmStateMeaning(NamedTuple):
    """`words` explain Slurm's state where gofer's state says less."""

    state: State
    reason: Reason | None = None
    words: str | None = None


# Every JOB STATE CODE in squeue(1) and sacct(1), up to Slurm 24.
_MEANINGS = {
    "PENDING": SlurmStateMeaning(State.QUEUED),
    "REQUEUED": SlurmStateMeaning(State.QUEUED),
    "REQUEUE_FED": SlurmStateMeaning(State.QUEUED),
    "REQUEUE_HOLD": SlurmStateMeaning(State.QUEUED, None, "held by Slurm after it was requeued"),
    "RESV_DEL_HOLD": SlurmStateMeaning(State.QUEUED, None, "held: its reservation was deleted"),
    "SPECIAL_EXIT": SlurmStateMeaning(State.QUEUED, None, "held by Slurm after it failed"),
    "EXPEDITING": SlurmStateMeaning(State.QUEUED),
    "CONFIGURING": SlurmStateMeaning(State.STARTING),
    "POWER_UP_NODE": SlurmStateMeaning(State.STARTING),
    "RUNNING": SlurmStateMeaning(State.RUNNING),
    "COMPLETING": SlurmStateMeaning(State.RUNNING),
    "RESIZING": SlurmStateMeaning(State.RUNNING),
    "SIGNALING": SlurmStateMeaning(State.RUNNING),
    "STAGE_OUT": SlurmStateMeaning(State.RUNNING),
    "UPDATE_DB": SlurmStateMeaning(State.RUNNING),
    "SUSPENDED": SlurmStateMeaning(State.PAUSED, None, "suspended by Slurm"),
    "STOPPED": SlurmStateMeaning(State.PAUSED, None, "stopped by Slurm, which keeps its CPUs reserved"),
    "COMPLETED": SlurmStateMeaning(State.SUCCEEDED),
    "CANCELLED": SlurmStateMeaning(State.CANCELLED, Reason.USER, "cancelled in Slurm"),
    "FAILED": SlurmStateMeaning(State.FAILED, Reason.EXIT_CODE, "its job failed"),
    "TIMEOUT": SlurmStateMeaning(State.FAILED, Reason.TIME_LIMIT, "stopped at Slurm's time limit"),
    "DEADLINE": SlurmStateMeaning(State.FAILED, Reason.TIME_LIMIT, "stopped at Slurm's deadline"),
    "OUT_OF_MEMORY": SlurmStateMeaning(State.FAILED, Reason.OUT_OF_MEMORY, "over the memory limit of Slurm"),
    "PREEMPTED": SlurmStateMeaning(State.FAILED, Reason.PREEMPTED, "preempted, and not restarted"),
    "NODE_FAIL": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "one of its nodes failed"),
    "BOOT_FAIL": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "one of its nodes did not boot"),
    "LAUNCH_FAILED": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "Slurm could not launch it"),
    "RECONFIG_FAIL": SlurmStateMeaning(State.FAILED, Reason.NODE_FAILURE, "one node could not be configured"),
    "REVOKED": SlurmStateMeaning(State.UNKNOWN, None, "another cluster of the federation has it"),
}


def meaning_of(word: str) -> SlurmStateMeaning:
    """The meaning of a word, also of `CANCELLED by 0` and `CANCELLED+`. An unknown word becomes `unknown`."""
    first = word.strip().partition(" ")[0].rstrip("+").upper()
    return _MEANINGS.get(first) or SlurmStateMeaning(State.UNKNOWN, None, f"Slurm reports `{word.strip()}`")


def exit_code_of(text: str | None) -> int | None:
    """The exit code from `CODE:SIGNAL` of accounting; a signal becomes 128 + its number, as in a shell."""
    first, _, second = (text or "").partition(":")
    code, signal = parse_count(first), parse_count(second)
    if code is None or signal is None:
        return None
    return 128 + signal if signal else code


Job = Mapping[str, Any]


class SlurmStatus:
    """One answer of one site. `folder` contains the files with Slurm's own output, which details name."""

    def __init__(self, answer: ClusterAnswer, *, folder: str, patience_s: float, now: float) -> None:
        self._answer = answer
        self._folder = folder
        self._patience_s = patience_s
        self._now = now
        self._jobs: dict[tuple[str, int | None], list[Job]] = {}
        for job in answer.jobs:
            self._jobs.setdefault((job["name"], job["row"]), []).append(job)

    def of(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        """The observations of the runs. Runs that were never sent to Slurm are left out."""
        found = ((run.id, self._of(run)) for run in runs)
        return {run_id: entry for run_id, entry in found if entry is not None}

    def _of(self, run: RunRef) -> Observation | None:
        name = run.group or run.id
        end = from_end(run.id, self._answer.ends[run.id]) if run.id in self._answer.ends else None
        if end is not None:
            return end
        jobs = self._jobs.get((name, run.row))
        if jobs:
            # After a repeated submission two jobs can have one name. The double starts nothing, so the job
            # that is alive, or else the older one, is the run.
            job = min(jobs, key=lambda entry: (meaning_of(entry["state"]).state.is_final, int(entry["raw"])))
            return self._from_job(run.id, name, job)
        gone = self._answer.gone.get(name)
        return None if gone is None else self._from_gone(run, name, gone)

    def _from_job(self, run_id: str, name: str, job: Job) -> Observation:
        meaning = meaning_of(job["state"])
        is_over = meaning.state.is_final
        # Slurm gives a job that never started the time of its end as its start.
        never_started = meaning.state == State.CANCELLED and job["start"] == job["end"]
        has_started = is_over or meaning.state in (State.RUNNING, State.STARTING, State.PAUSED)
        detail = meaning.words
        if meaning.state == State.QUEUED and job.get("reason") not in (None, "", "None"):
            detail = f"{job['reason']}"
        reason = meaning.reason
        if meaning.state == State.CANCELLED:
            detail = "aborted" if job.get("stopped") else _cancelled(job["state"])
            if job.get("after") and not job.get("stopped"):
                names = " or ".join(short_id(run) for run in job["after"])
                reason, detail = Reason.DEPENDENCY, f"after {names}: it did not succeed"
        if meaning.state == State.FAILED:
            output = f"slurm-{job['job']}_{job['row']}" if job["row"] is not None else f"slurm-{job['job']}"
            detail = f"{detail}; Slurm's own output is in {self._folder}/slurm/{name}/{output}.out"
        return Observation(
            run_id=run_id,
            state=meaning.state,
            reason=reason,
            detail=detail,
            exit_code=exit_code_of(job.get("exit")) if is_over else None,
            started_at=job["start"] if has_started and not never_started else None,
            ended_at=job["end"] if is_over else None,
            service_id=_job_id(job["job"], job["row"]),
        )

    def _from_gone(self, run: RunRef, name: str, gone: Mapping[str, Any]) -> Observation | None:
        if gone["rejected"]:
            return Observation(
                run_id=run.id,
                state=State.FAILED,
                reason=Reason.REJECTED,
                detail=gone["rejected"],
                ended_at=self._now,
            )
        if not gone["job"]:
            return None
        accounting = [job for job in gone["book"] if job["row"] == run.row]
        if accounting:
            return self._from_job(run.id, name, {**accounting[-1], "stopped": run.row in gone["stopped"]})
        if run.row in gone["stopped"]:
            return Observation(
                run_id=run.id, state=State.CANCELLED, reason=Reason.USER, detail="aborted", ended_at=self._now
            )
        return self._from_nothing(run, gone["job"])

    def _from_nothing(self, run: RunRef, job: str) -> Observation:
        """The run was sent, but Slurm has forgotten it: its folder may say more, else the run is lost."""
        since = self._answer.missing.get(run.id, self._now)
        words = f"neither squeue nor sacct knows its job {job} now, and no node recorded an outcome"
        for_s = self._now - since
        return forgotten(run.id, words, for_s=for_s, patience_s=self._patience_s, now=self._now)


def _job_id(job: str, row: int | None) -> str:
    """The number of a job as Slurm's programs print and read it: `1234`, or `1234_5` for a row."""
    return job if row is None else f"{job}_{row}"


def _cancelled(state: str) -> str:
    """The detail for `CANCELLED by 1000`, as accounting reports it."""
    who = state.partition(" by ")[2]
    return f"cancelled in Slurm by user {who}" if who else "cancelled in Slurm"
