"""Ends jobs: removes waiting jobs from Slurm's queue, and sends running jobs a signal to stop their ranks."""

from __future__ import annotations

import re

from gofer.node.slurm import calls, handoff
from gofer.node.slurm.calls import SlurmError
from gofer.node.slurm.handoff import Handoff, every, path_of
from gofer.remote.api import RowsOfRuns

_AT_ONCE = 200
# What `scancel` prints for jobs that have ended. It may also print nothing and exit with the low byte of
# Slurm's error: 2017 is an invalid job, 2021 a completing job.
_OVER = re.compile(
    r"invalid job id|already complet|already finish|no jobs? |it exited with (225|229)$", re.IGNORECASE
)


def cancel(folder: str, runs: RowsOfRuns, grace_s: float | None) -> None:
    """Ask for the end of runs, of whole arrays (None), or of rows of arrays. Ended runs are ignored.
    Idempotent.

    The order is recorded before Slurm gets it, so that the agent that ends a run can give the reason. A
    running job gets a signal that only its agents receive: unlike Slurm, they know the grace period of the
    command. With a grace period of 0, Slurm kills the job itself as well.
    """
    jobs: list[str] = []
    for request_id, rows in runs.items():
        place = Handoff(path_of(folder, request_id))
        job = place.read_text(handoff.JOB)
        if job is None:
            continue
        for row in every(rows):
            place.ask_to_stop(row, grace_s)
        jobs += [job] if rows is None else [f"{job}_{row}" for row in rows]
    for at in range(0, len(jobs), _AT_ONCE):
        # In parts, because a command line has a limited length.
        some = jobs[at : at + _AT_ONCE]
        if grace_s == 0.0:
            _scancel(some)
            continue
        _scancel(["--state=PENDING", *some])
        _scancel(["--state=RUNNING", "--signal=TERM", *some])
        # A suspended job cannot handle a signal, so Slurm ends it at once.
        _scancel(["--state=SUSPENDED", *some])


def _scancel(words: list[str]) -> None:
    try:
        calls.call(["scancel", *words])
    except SlurmError as error:
        if not _OVER.search(str(error)):
            raise
