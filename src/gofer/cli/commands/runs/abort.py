"""`gofer abort`, `gofer cancel`, `gofer cancel job`: stop runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

from gofer.cli.options import (
    Command,
    Flag,
    Option,
    json_option,
    quiet_option,
)
from gofer.cli.output.done import record_done
from gofer.cli.output.run_json import print_runs
from gofer.cli.output.screen import print_message, print_nothing, printable
from gofer.cli.output.theme import themed
from gofer.cli.run_choice import choose_runs, is_agreed, run_arguments, yes_option
from gofer.errors import UsageError
from gofer.ops.messages import Message
from gofer.ops.runs.stop import abort
from gofer.ops.session import Session
from gofer.text import parse_duration_s
from gofer.tracking.rows import ACTIVE

if TYPE_CHECKING:
    from gofer.tracking.ledger import RunRow

# Other tools write `cancel job NAME`, so such a first word is accepted and ignored.
_KINDS = ("job", "jobs", "run", "runs")


class _Options(TypedDict):
    runs: tuple[str, ...]
    filters: tuple[str, ...]
    all: bool
    yes: bool
    target: str | None
    grace: str | None
    as_json: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """A line, or JSON, for every run that was stopped; runs that had ended are named on stderr."""
    grace_s = parse_duration_s(given["grace"]) if given["grace"] else None
    with Session(target=given["target"], emit=print_nothing if given["quiet"] else print_message) as session:
        found = _chosen(session, given)
        if found is None:
            return 1
        rows = abort(session, found, grace_s=grace_s)
        record_done(", ".join(f"{row.id} is {row.state}" for row in rows))
        for row in found:
            if row.is_final:
                session.emit(Message(f"{row.short_id} has already ended: {row.state}"))
        if given["as_json"]:
            print_runs(session, rows)
            return 0
        for row in rows:
            sys.stdout.write(themed(printable(f"{row.id} {row.state}"), sys.stdout) + "\n")
    return 0


def _chosen(session: Session, given: _Options) -> list[RunRow] | None:
    """The runs to stop; None when the person does not agree. Of the runs of a filter, those that have ended
    are left out.
    """
    references = given["runs"][1:] if given["runs"][:1] and given["runs"][0] in _KINDS else given["runs"]
    filters = [*given["filters"], *([f"state={','.join(ACTIVE)}"] if given["all"] else [])]
    if not references and not filters:
        raise UsageError(
            "no run to stop was named",
            hint="`gofer list runs` shows them; `gofer abort RUN`, `--filter` and `--all` choose",
        )
    found = choose_runs(session, references, filters, target=given["target"], acts=True, may_be_none=True)
    if not filters:
        return found
    living = [row for row in found if not row.is_final]
    if not living:
        session.emit(Message("no run to stop: none that has not ended matches"))
    return living if not living or is_agreed(living, "stop", yes=given["yes"]) else None


command = Command(
    "abort",
    run,
    [
        *run_arguments("Stop the runs that match"),
        Flag("--all", "Stop all runs that have not ended"),
        yes_option(),
        Option(
            "--grace",
            "The time between SIGTERM and SIGKILL",
            default_text="the grace it was submitted with",
            metavar="TIME",
        ),
        json_option("Print a JSON array of the runs"),
        quiet_option(),
    ],
    help="Stop runs: SIGTERM to all their processes, then SIGKILL to what is left. A run that has ended is "
    "left alone. A group stops with all its rows. Before gofer stops the runs of `--filter` or `--all`, it "
    "shows them and asks; without a terminal it needs `--yes`.",
)
