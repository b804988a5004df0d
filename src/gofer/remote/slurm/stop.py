"""Has jobs end: those that wait are taken from the queue, those that run are told to stop their ranks."""

from __future__ import annotations

import re

from gofer.node.slurm import calls, handoff
from gofer.node.slurm.calls import SlurmError
from gofer.node.slurm.handoff import Room, every, path_of

_AT_ONCE = 200
# What `scancel` says of jobs that need no more cancelling. It may also say nothing and exit with the low byte
# of Slurm's error: 2017 is an invalid job, 2021 one that is completing.
_OVER = re.compile(
    r"invalid job id|already complet|already finish|no jobs? |it exited with (225|229)$", re.IGNORECASE
)


def cancel(folder: str, runs: dict[str, list[int] | None], grace_s: float | None) -> None:
    """Ask for the end of runs, of whole arrays (None), or of rows of arrays; ended ones are passed over.

    The order is written down before Slurm hears of it, so that whoever ends knows why. A job that runs is
    sent a signal that only its agents see: they know how much grace the command has, and Slurm would not.
    With no grace at all Slurm ends the job itself as well.
    """
    jobs: list[str] = []
    for request_id, rows in runs.items():
        place = Room(path_of(folder, request_id))
        job = place.read_text(handoff.JOB)
        if job is None:
            continue
        for row in every(rows):
            place.ask_to_stop(row, grace_s)
        jobs += [job] if rows is None else [f"{job}_{row}" for row in rows]
    for at in range(0, len(jobs), _AT_ONCE):
        some = jobs[at : at + _AT_ONCE]
        if grace_s == 0.0:
            _scancel(some)
            continue
        _scancel(["--state=PENDING", *some])
        _scancel(["--state=RUNNING", "--signal=TERM", *some])
        _scancel(["--state=SUSPENDED", *some])


def _scancel(words: list[str]) -> None:
    try:
        calls.call(["scancel", *words])
    except SlurmError as error:
        if not _OVER.search(str(error)):
            raise
