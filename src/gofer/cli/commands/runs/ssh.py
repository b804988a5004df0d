"""`gofer ssh`: a shell where a run runs, or a command there."""

from __future__ import annotations

import sys
from typing import TypedDict, Unpack

import click

from gofer.cli.options import Command, Option, quiet_option, run_argument, target_option
from gofer.cli.output.screen import print_message
from gofer.ops.runs.find import find
from gofer.ops.runs.freshness import refresh_runs
from gofer.ops.runs.shell import shell_words
from gofer.ops.session import Session
from gofer.transport.process import become


class _Options(TypedDict):
    target: str | None
    node: int | None
    quiet: bool
    run: str
    command: tuple[str, ...]


def run(**given: Unpack[_Options]) -> int:
    """Replace this process by the shell or command, so its exit status is that of gofer."""
    with Session(target=given["target"]) as session:
        found = find(session, given["run"], target=given["target"], acts=True)
        (row,) = refresh_runs(session, [found])
    command = given["command"][1:] if given["command"][:1] == ("--",) else given["command"]
    return enter(row.id, command, quiet=given["quiet"], node=given["node"])


def enter(run_id: str, command: tuple[str, ...], *, quiet: bool = False, node: int | None = None) -> int:
    """Enter the run; returns only after an error."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with Session() as session:
        row = session.ledger.get(run_id)
        assert row is not None  # this command has just found the run
        words = shell_words(session, row, command, terminal=terminal, node=node)
    if terminal and not command and not quiet:
        place = "" if node is None else f"node {node} of "
        print_message(f"inside {place}{row.short_id} on `{row.target}`; `exit` leaves, and the run continues")
    become(words)


command = Command(
    "ssh",
    run,
    [
        target_option("Only look among the runs on this target"),
        Option(
            "--node",
            "The node of the run to enter, from 0",
            default_text="0",
            type=click.IntRange(min=0),
            metavar="N",
        ),
        quiet_option(),
        run_argument(),
        click.Argument(["command"], nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND…]"),
    ],
    help="Open a shell where a run runs: on its node, in its folder, with the environment of its rank 0, or "
    "of the first rank on the node of `--node`. With a command, run the command there instead of a "
    "shell, and exit with its status.\n\n\b\n"
    "  gofer ssh last\n"
    "  gofer ssh 9qd nvidia-smi\n"
    "  gofer ssh --node 1 9qd nvidia-smi\n"
    "  gofer ssh 9qd sh -c 'ps -ef | grep $USER'\n\n"
    "The run continues when the shell ends. Programs that the shell started end with the run where the "
    "cluster or the kernel allows it.",
    takes_command=True,
)
