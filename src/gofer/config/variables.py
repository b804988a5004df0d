"""The environment as a layer of settings: `GOFER_GPUS` is `job.gpus`, and so on for every single value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gofer.config.nodes import Items, Node, Scalar, Table, ValueOrigin
from gofer.text import did_you_mean

_PREFIX = "GOFER_"
# The keys of `job` whose value fits into one line of text; `env` and `tags` are maps and have flags of their
# own.
JOB_VARIABLES = (
    "name",
    "gpus",
    "nodes",
    "procs",
    "cpus",
    "setup",
    "time_limit",
    "grace",
    "retries",
    "retry_on",
    "priority",
    "sync",
    "keep",
    "keep_group",
    "keep_most",
    "outputs",
    "multi_process",
    "rank_variables",
    "launcher",
    "packages",
    "wheels",
)
_LISTS = ("retry_on", "sync", "outputs")
_TRUTHS = {"1": "true", "0": "false"}
# What gofer itself reads, and what it tells the command of a run.
_OTHERS = (
    *(
        "HOME",
        "WORK_DIR",
        "DEBUG",
        "AZURE_PROFILE",
        "TARGET",
        "RUN_ID",
        "ATTEMPT",
        "RUN_DIR",
        "OUTPUT_DIR",
        "TAGS",
    ),
    *("RANK", "NODE_RANK", "HOSTFILE", "PACKAGES_FILE"),
)


def job_variables(environ: Mapping[str, str]) -> Table:
    """The defaults of a job that the environment sets; an empty variable sets nothing."""
    entries: dict[str, Node] = {}
    for key in JOB_VARIABLES:
        variable = _PREFIX + key.upper()
        text = environ.get(variable)
        if not text:
            continue
        place = ValueOrigin(f"env {variable}")
        if key in _LISTS:
            entries[key] = Items(tuple(Scalar(part.strip(), place) for part in text.split(",")), place)
        else:
            entries[key] = Scalar(_TRUTHS.get(text, text) if key == "multi_process" else text, place)
    return Table(entries, ValueOrigin("environment"))


def misspelt(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables that are nearly a setting, with a hint; others may be anybody's and are left alone."""
    known = [*(key.upper() for key in JOB_VARIABLES), *_OTHERS]
    for name in sorted(environ):
        rest = name.removeprefix(_PREFIX)
        if name.startswith(_PREFIX) and rest not in known and not rest.startswith("ARG_"):
            # Compared without the prefix, which would make any two names look alike.
            hint = did_you_mean(rest, known)
            if hint:
                yield name, hint.replace("`", f"`{_PREFIX}", 1)
