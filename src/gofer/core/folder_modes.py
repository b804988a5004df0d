"""How a mapped folder comes to be `./<name>` in a run."""

from __future__ import annotations

LINK = "link"
COPY = "copy"
MOUNT = "mount"
UPLOAD = "upload"
# In the path of a folder: the id of the run, so that runs write in places of their own.
RUN = "{run}"


def path_of_run(path: str, run_id: str) -> str:
    """The path in the store for one run."""
    return path.replace(RUN, run_id)


def path_of_all_runs(path: str) -> str:
    """The folder in the store that holds what all runs have there: the path up to the part with `{run}`."""
    lead, mark, _ = path.partition(RUN)
    return lead.rpartition("/")[0] if mark else path
