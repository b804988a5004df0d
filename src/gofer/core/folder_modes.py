"""The ways in which a mapped folder becomes `./<name>` in a run."""

from __future__ import annotations

LINK = "link"
COPY = "copy"
MOUNT = "mount"
UPLOAD = "upload"
# The name, among the folders of a run, of the working copy itself: what the command writes beside its code
# goes to the store at the end.
WORKING_COPY = "."
# In the path of a folder, this stands for the id of the run, so that each run writes to its own place.
RUN = "{run}"


def path_of_run(path: str, run_id: str) -> str:
    """The path in the store for one run: `{run}` replaced by the id."""
    return path.replace(RUN, run_id)


def path_of_all_runs(path: str) -> str:
    """The folder in the store that holds the folders of all runs: the path before the part with `{run}`."""
    lead, mark, _ = path.partition(RUN)
    return lead.rpartition("/")[0] if mark else path
