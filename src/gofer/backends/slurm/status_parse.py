"""Derives the state of each run from Slurm's answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gofer.backends.base import RunRef
from gofer.backends.polling import Said
from gofer.backends.scheduled import forgotten
from gofer.backends.slurm.states import exit_code_of, meaning_of
from gofer.core.states import Reason, State
from gofer.model.decode import convert
from gofer.model.run import Observation

Job = Mapping[str, Any]


class SlurmStatus:
    """One answer of one site. `folder` contains the files with Slurm's own output, which details name."""

    def __init__(self, answer: Said, *, folder: str, patience_s: float, now: float) -> None:
        self._said = answer
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
        end = from_end(run.id, self._said.ends[run.id]) if run.id in self._said.ends else None
        if end is not None:
            return end
        jobs = self._jobs.get((name, run.row))
        if jobs:
            # After a repeated submission two jobs can have one name. The double starts nothing, so the job
            # that is alive, or else the older one, is the run.
            job = min(jobs, key=lambda entry: (meaning_of(entry["state"]).state.is_final, int(entry["raw"])))
            return self._from_job(run.id, name, job)
        gone = self._said.gone.get(name)
        return None if gone is None else self._from_gone(run, name, gone)

    def _from_job(self, run_id: str, name: str, job: Job) -> Observation:
        meaning = meaning_of(job["state"])
        is_over = meaning.state.is_final
        has_started = is_over or meaning.state in (State.RUNNING, State.STARTING, State.PAUSED)
        detail = meaning.words
        if meaning.state == State.CANCELLED:
            detail = "aborted" if job.get("stopped") else _cancelled(job["state"])
        if meaning.state == State.FAILED:
            output = f"slurm-{job['job']}_{job['row']}" if job["row"] is not None else f"slurm-{job['job']}"
            detail = f"{detail}; Slurm's own output is in {self._folder}/slurm/{name}/{output}.out"
        return Observation(
            run_id=run_id,
            state=meaning.state,
            reason=meaning.reason,
            detail=detail,
            exit_code=exit_code_of(job.get("exit")) if is_over else None,
            started_at=job["start"] if has_started else None,
            ended_at=job["end"] if is_over else None,
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
        since = self._said.missing.get(run.id, self._now)
        words = f"neither squeue nor sacct knows its job {job} now, and no node recorded an outcome"
        for_s = self._now - since
        return forgotten(run.id, words, for_s=for_s, patience_s=self._patience_s, now=self._now)


def _cancelled(state: str) -> str:
    """The detail for `CANCELLED by 1000`, as accounting reports it."""
    who = state.partition(" by ")[2]
    return f"cancelled in Slurm by user {who}" if who else "cancelled in Slurm"


def from_end(run_id: str, end: Mapping[str, Any]) -> Observation | None:
    """The end that the run's own job recorded; see gofer.node.slurm.end. None for a record that is not valid.

    Everybody with access to the store can write such a record, so it is checked.
    """
    known = {name: value for name, value in end.items() if name not in ("id", "row")}
    return convert({"attempts": (), **known, "run_id": run_id}, Observation)
