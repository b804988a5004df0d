"""`gofer scale`: change the number of nodes of an elastic run."""

from __future__ import annotations

from typing import TypedDict, Unpack

import click

from gofer.cli.options import Command, run_argument, target_option
from gofer.cli.output.done import record_done
from gofer.cli.output.screen import print_message
from gofer.cli.run_choice import choose_runs
from gofer.ops.messages import Message
from gofer.ops.runs.scale import scale
from gofer.ops.session import Session


class _Options(TypedDict):
    run: str
    nodes: str
    target: str | None


def run(**given: Unpack[_Options]) -> int:
    """Say on stderr what was wished."""
    with Session(target=given["target"], emit=print_message) as session:
        [row] = choose_runs(session, [given["run"]], (), target=given["target"], acts=True)
        words = scale(session, row, given["nodes"])
        record_done(f"{row.id} takes {words}")
        session.emit(Message(f"{row.short_id} takes {words} from its next checkpoint on"))
    return 0


command = Command(
    "scale",
    run,
    [
        run_argument(),
        click.Argument(["nodes"], metavar="N|MIN:MAX"),
        target_option("Only look among the runs on this target"),
    ],
    help="Change the number of nodes of a run that was submitted with `--nodes MIN:MAX`: "
    "`gofer scale last 3` for three nodes, `gofer scale last 2:4` for two to four. "
    "Nodes join and leave at the next checkpoint.",
)
