"""`gofer list jobs`: the runs of the ledger; with `--server` all jobs of a target's service."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Unpack

from gofer.backends.base import JobFilter
from gofer.cli.commands.runs import list_runs
from gofer.cli.commands.runs.list_runs import ListRunsOptions, list_matching
from gofer.cli.options import Command, Flag, Option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, screen_width
from gofer.cli.output.theme import has_colours
from gofer.errors import UsageError
from gofer.ops.runs.find import targets_meant
from gofer.ops.runs.target_views import job_json, jobs_of_group, service_jobs, states_of
from gofer.ops.session import Session
from gofer.text import format_local_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.backends.base import ServiceJob

_USUAL = 50
_NARROWING = ("status", "experiment", "user", "tag")
_OF_RUNS = ("filter", "group", "rows", "columns", "sort", "reverse", "all", "everywhere", "export", "watch")


class _Options(ListRunsOptions):
    server: bool
    status: tuple[str, ...]
    experiment: str | None
    user: str | None
    tag: str | None


def run(**given: Unpack[_Options]) -> int:
    """A line, or a JSON object, for every job; without `--server`, what `gofer list runs` prints."""
    if not given["server"]:
        for name in _NARROWING:
            if dict(given)[name]:
                raise UsageError(
                    f"`--{name}` narrows the jobs of a service", hint="add `--server`, or use `--filter`"
                )
        return list_matching(given)
    for name in _OF_RUNS:
        if dict(given)["filters" if name == "filter" else name]:
            raise UsageError(f"`--{name}` cannot be combined with `--server`", hint="leave it out")
    with Session(target=given["target"]) as session:
        named = targets_meant(session, given["target"])
        if len(named) > 1:
            found: Sequence[ServiceJob] = jobs_of_group(session, named, _filter(given))
        else:
            name, found = service_jobs(session, named[0] if named else None, _filter(given))
            named = (name,)
    if given["as_json"]:
        print_json([job_json(job) for job in found])
        return 0
    sys.stdout.write(_table(found))
    if not found:
        print_message(f"the service of {', '.join(f'`{one}`' for one in named)} lists no such command job")
    return 0


def _filter(given: _Options) -> JobFilter:
    return JobFilter(
        states=states_of(given["status"]),
        experiment=given["experiment"] or "",
        tag=given["tag"] or "",
        user=given["user"] or "",
        most=given["last"] or _USUAL,
    )


def _table(jobs: Sequence[ServiceJob]) -> str:
    columns = [
        Column("NAME"),
        Column("STATE", coloured=True),
        Column("STATUS", drop=2),
        Column("COMPUTE", drop=4),
        Column("GPUS", right=True),
        Column("EXPERIMENT", drop=1),
        Column("USER", drop=3),
        Column("CREATED"),
        Column("COMMAND", flexible=True),
    ]
    rows = [
        [
            job.name,
            job.state.value,
            job.status,
            job.compute,
            str(job.gpus) if job.gpus else "",
            job.experiment,
            job.user,
            format_local_time(job.created_at),
            job.command,
        ]
        for job in jobs
    ]
    return render(columns, rows, fit=screen_width(), colour=has_colours(sys.stdout))


command = Command(
    "jobs",
    run,
    [
        *list_runs.parameters(f"20; {_USUAL} with `--server`; all with `--export`"),
        Flag("--server", "List the jobs of the target's service instead, also those gofer did not start"),
        Option(
            "--status",
            "With `--server`: only jobs in this state, gofer's word or the service's",
            multiple=True,
            metavar="STATE",
        ),
        Option("--experiment", "With `--server`: only jobs of this experiment", metavar="NAME"),
        Option("--user", "With `--server`: only jobs of this person", metavar="NAME"),
        Option("--tag", "With `--server`: only jobs with this tag", metavar="K[=V]"),
    ],
    help="List runs as `gofer list runs` does. With `--server`, list the jobs that the target's service has, "
    "newest first; the service applies the conditions. Any of them can be named like a run: `gofer q NAME`.",
)
