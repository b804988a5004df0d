"""Asks Slurm once about all jobs of this user, and reads the records of runs that Slurm has forgotten."""

from __future__ import annotations

import os
import re
import time
from typing import Iterator, cast

from gofer.core import files
from gofer.core import run_layout as names
from gofer.core.json_text import parse_count
from gofer.core.outcome import EndFields
from gofer.node.slurm import calls, handoff
from gofer.node.slurm.calls import SlurmError
from gofer.node.slurm.handoff import Handoff, every, path_of
from gofer.node.slurm.job_name import run_of
from gofer.remote.api import GoneSlurmRun, QueuedJob, RowsOfRuns, SlurmAnswer, SlurmJob, StoppedSlurmJob

# `name` is the id of the run. The reason is last, because it is the only field that may contain a `|`.
_FIELDS = ("name", "job", "raw", "row", "state", "start", "end", "nodes", "reason")
_QUEUE_FORMAT = "%j|%F|%A|%K|%T|%S|%e|%N|%r"
_BOOK_FORMAT = "JobName,JobID,JobIDRaw,State,ExitCode,Start,End,NodeList"
# Slurm cancels such a job: a job that it depends on did not succeed.
NEVER_SATISFIED = "DependencyNeverSatisfied"
_ROWS = re.compile(r"(\d+)(?:_(\d+)|_\[([^\]%]*)[^\]]*\])?$")
_AT_ONCE = 500
# No array of Slurm has a higher index. A limit, so that a wrong answer cannot fill the memory.
_MOST_INDEX = 4_000_000

# States that no attempt follows. A job that was preempted or lost its node may be requeued.
_OVER = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY")


def read_status(folder: str, runs: RowsOfRuns, store: str | None) -> SlurmAnswer:
    """The state of runs. Blocking; SlurmError when Slurm cannot be asked. `store` is the folder with the
    recorded ends of runs.
    """
    jobs = list(_queue())
    gone: dict[str, GoneSlurmRun] = {}
    known: dict[str, set[int | None]] = {}
    for job in jobs:
        known.setdefault(job["name"], set()).add(job["row"])
    for name in runs.keys() & known.keys():
        _adopt(Handoff(path_of(folder, name)), [job["job"] for job in jobs if job["name"] == name])
    for name, rows in runs.items():
        missing = [row for row in every(rows) if row not in known.get(name, ())]
        if missing:
            gone[name] = _submission_facts(Handoff(path_of(folder, name)), missing)
    _look_up(folder, gone)
    for job in jobs:
        if job["name"] in runs and job["state"] == "CANCELLED":
            place = Handoff(path_of(folder, job["name"]))
            job["stopped"] = place.stop_order(job["row"]) is not None
            if job["reason"].startswith(NEVER_SATISFIED):
                job["after"] = [one["run"] for one in place.request().after if one.get("ok", True)]
    waiting = {(job["name"], job["row"]) for job in jobs if job["state"] == "PENDING"}
    wanted = [(name, row) for name, rows in runs.items() for row in every(rows) if (name, row) not in waiting]
    ends = _recorded_ends(store, wanted) if store else {}
    living = {job["name"] for job in jobs if job["state"] not in _OVER}
    for name in runs.keys() - living:
        if name not in gone or _is_over(name, gone[name], ends):
            Handoff(path_of(folder, name)).close()
    return {"jobs": jobs, "gone": gone, "ends": ends}


def _is_over(name: str, left: GoneSlurmRun, ends: dict[str, EndFields]) -> bool:
    """Whether there is proof, for every row in question, that it has ended. A missing job proves nothing."""
    booked = {entry["row"] for entry in left["book"]}
    proven = booked.union(left["stopped"])
    return all(row in proven or (name if row is None else f"{name}-{row}") in ends for row in left["rows"])


def _recorded_ends(store: str, wanted: list[tuple[str, int | None]]) -> dict[str, EndFields]:
    """The recorded end of each run; see gofer.node.slurm.end."""
    found: dict[str, EndFields] = {}
    for name, row in wanted:
        run_id = name if row is None else f"{name}-{row}"
        try:
            with open(os.path.join(os.path.expanduser(store), names.ends_key(run_id)), "rb") as file:
                lines = [line for line in files.read_lines(file.read()) if line.get("id") == run_id]
        except OSError:
            continue
        if lines:
            found[run_id] = cast("EndFields", lines[-1])
    return found


def _queue() -> Iterator[StoppedSlurmJob]:
    argv = ["squeue", f"--user={calls.user()}", "--array", "--states=all", "--noheader"]
    for line in calls.call([*argv, f"--format={_QUEUE_FORMAT}"]).splitlines():
        words = line.split("|", len(_FIELDS) - 1)
        run_id = run_of(words[0])
        if len(words) == len(_FIELDS) and run_id is not None and _are_counts(words[1:3]):
            _, job, raw, row, state, start, end, nodes, reason = words
            yield {
                "name": run_id,
                "job": job,
                "raw": raw,
                "row": parse_count(row),
                "state": state,
                "start": _moment(start),
                "end": _moment(end),
                "nodes": nodes,
                "reason": reason,
                "exit": None,
            }


def _adopt(place: Handoff, numbers: list[str]) -> None:
    """Record the job's number for a submitter that was killed before it could do so."""
    if not place.has(handoff.JOB) and os.path.isdir(place.path):
        place.write(handoff.JOB, min(numbers, key=int).encode(), durable=True)
        place.remove(handoff.SENDING)


def _submission_facts(place: Handoff, rows: list[int | None]) -> GoneSlurmRun:
    """What a run's handoff folder records of its submission, and which rows were asked to stop."""
    return {
        "job": place.read_text(handoff.JOB),
        "rejected": place.read_text(handoff.REJECTED),
        "rows": rows,
        "stopped": [row for row in rows if place.stop_order(row) is not None],
        "book": [],
    }


def _look_up(folder: str, gone: dict[str, GoneSlurmRun]) -> None:
    """Add the entries of accounting, on a site that has accounting."""
    owners = {left["job"]: name for name, left in gone.items() if left["job"]}
    if not owners or not calls.site(folder, time.time()).has_accounting:
        return
    numbers = list(owners)
    # In parts, because a command line has a limited length.
    for at in range(0, len(numbers), _AT_ONCE):
        for entry in _accounting_entries(numbers[at : at + _AT_ONCE]):
            if entry["job"] in owners:
                gone[owners[entry["job"]]]["book"].append(entry)


def _accounting_entries(numbers: list[str]) -> Iterator[SlurmJob]:
    """An entry for each attempt of each job, in order. sacct lists rows that never started in one line."""
    argv = ["sacct", "--noheader", "--parsable2", "--allocations", "--duplicates"]
    text = calls.call([*argv, f"--jobs={','.join(numbers)}", f"--format={_BOOK_FORMAT}"])
    for line in text.splitlines():
        words = line.split("|")
        found = _ROWS.match(words[1]) if len(words) == 8 and _are_counts(words[2:3]) else None
        if found is None:
            continue
        name, _, raw, state, ended, start, end, nodes = words
        job, row, several = found.groups()
        rows = expand(row or several or "")
        for row_number in every(rows or None):
            yield {
                "name": name,
                "job": job,
                "raw": raw,
                "row": row_number,
                "state": state,
                "reason": "",
                "start": _moment(start),
                "end": _moment(end),
                "nodes": nodes,
                "exit": ended,
            }


def expand(text: str) -> list[int]:
    """The numbers in `1,3-5,10-20:5`."""
    found: list[int] = []
    for word in text.split(","):
        match = re.fullmatch(r"(?a)(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", word.strip())
        if match is None:
            continue
        first, last, step = match.groups()
        found += range(int(first), min(int(last or first), _MOST_INDEX) + 1, max(int(step or 1), 1))
    return found


def _are_counts(words: list[str]) -> bool:
    return all(parse_count(word) is not None for word in words)


def _moment(text: str) -> float | None:
    number = parse_count(text)
    return None if number is None else float(number)


def queued_job(request_id: str, row: int | None) -> QueuedJob | None:
    """The job of a run, with the number of jobs before it in its partition; None when Slurm's queue does not
    have the run.
    """
    mine = ["squeue", f"--user={calls.user()}", "--array", "--noheader"]
    text = calls.call([*mine, "--format=%j|%K|%T|%S|%Q|%P|%V|%i|%r"])
    for line in text.splitlines():
        words = line.split("|", 8)
        if len(words) < 9 or run_of(words[0]) != request_id:
            continue
        _, index, state, start, priority, partition, since, job, reason = words
        if row is None or index == str(row):
            return QueuedJob(
                job,
                state,
                reason,
                partition,
                estimate=_moment(start),
                since=_moment(since),
                priority=_moment(priority),
                ahead=_ahead(partition, _moment(priority), _moment(since)),
            )
    return None


def _ahead(partition: str, priority: float | None, since: float | None) -> int | None:
    argv = ["squeue", "--states=PENDING", f"--partition={partition}", "--array", "--noheader"]
    try:
        lines = calls.call([*argv, "--format=%Q|%V"]).splitlines()
    except SlurmError:
        return None
    found = 0
    for line in lines:
        other, _, when = line.partition("|")
        mine, theirs = (-(priority or 0.0), since or 0.0), (-(_moment(other) or 0.0), _moment(when) or 0.0)
        found += theirs < mine
    return found
