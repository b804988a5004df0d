"""The name of a run's job in Slurm: the name of the run, which people read in `squeue`, and the run's id.

Pure. The id finds the job again, also after its number was lost. Jobs that an older gofer submitted have the
id alone.
"""

from __future__ import annotations

import re

_MOST_CHARS = 40
# `squeue --name` separates names by commas, and gofer the columns of its output by bars.
_ODD = re.compile(r"[^A-Za-z0-9_.+-]+")
# See gofer.model.ids.
_RUN_ID = re.compile(r"(?:.*-)?(r[0-9]{6}-[0-9]{6}-[a-z0-9]+)", re.DOTALL)


def job_name(run_id: str, name: str) -> str:
    """`train-r261116-091233-k9qd4x`; only the id for a name without a letter, digit or dash."""
    plain = _ODD.sub("_", name)[:_MOST_CHARS].strip("_")
    return f"{plain}-{run_id}" if plain else run_id


def run_of(name: str) -> str | None:
    """The id of the run whose job has this name; None for a job that is not gofer's."""
    found = _RUN_ID.fullmatch(name)
    return None if found is None else found.group(1)


def split_row(run_id: str) -> tuple[str, int | None]:
    """The id of the array and the number of the row; the id and None for a run that is not a row."""
    group, dash, row = run_id.rpartition("-")
    return (group, int(row)) if dash and _RUN_ID.fullmatch(group) and row.isdigit() else (run_id, None)
