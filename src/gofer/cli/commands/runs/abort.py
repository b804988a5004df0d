"""`gofer abort`, `gofer cancel`, `gofer cancel job`: stop runs."""

from __future__ import annotations

import sys
from typing import Any

from gofer.cli.options import Command, Option, json_option, quiet_option, run_argument, target_option
from gofer.cli.output.done import record_done
from gofer.cli.output.run_json import print_runs
from gofer.cli.output.screen import print_message, print_nothing, printable
from gofer.errors import UsageError
from gofer.ops.messages import Message
from gofer.ops.runs.find import find_all
from gofer.ops.runs.stop import abort
from gofer.ops.session import Session
from gofer.text import parse_duration_s

# Other tools write `cancel job NAME`, so such a first word is accepted and ignored.
_KINDS = ("job", "jobs", "run", "runs")


def run(**given: Any) -> int:
    """A line, or JSON, for every run that was stopped; runs that had ended are named on stderr."""
    references = given["runs"][1:] if given["runs"][0] in _KINDS else given["runs"]
    if not references:
        raise UsageError("no run to stop was named", hint="`gofer list runs` shows them; `gofer abort RUN`")
    grace_s = parse_duration_s(given["grace"]) if given["grace"] else None
    with Session(target=given["target"], emit=print_nothing if given["quiet"] else print_message) as session:
        found = find_all(session, references, target=given["target"], acts=True)
        rows = abort(session, found, grace_s=grace_s)
        record_done(", ".join(f"{row.id} is {row.state}" for row in rows))
        for row in found:
            if row.is_final:
                session.emit(Message(f"{row.short_id} has already ended: {row.state}"))
        if given["as_json"]:
            print_runs(session, rows)
            return 0
        for row in rows:
            sys.stdout.write(printable(f"{row.id} {row.state}") + "\n")
    return 0


command = Command(
    "abort",
    run,
    [
        run_argument(many=True),
        target_option("Only look among the runs on this target"),
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
    "left alone. A group stops with all its rows.",
)
