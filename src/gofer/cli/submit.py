"""`gofer submit`: a command becomes a run; its id is what stdout carries."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from gofer.cli.options import Command, Flag, Option, json_option, quiet_option, target_option
from gofer.cli.screen import hush, say
from gofer.errors import UsageError

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def run(**given: Any) -> int:
    """The run's id, its JSON, its log or the plan on stdout; with `--follow` or `--wait`, its exit status."""
    from gofer.cli.request import build_request
    from gofer.ops.session import Session
    from gofer.ops.submit import plan, submit

    if not given["command"] and not given["job"]:
        raise UsageError("there is no command to run", hint="for example `gofer submit python train.py`")
    if given["command"] == ("ssh",):
        from gofer.cli.holding import hold

        return hold(given)
    request = build_request(given)
    with Session(target=given["target"], say=hush if given["quiet"] else say) as session:
        if given["dry_run"]:
            sys.stdout.write(plan(session, request).rstrip("\n") + "\n")
            return 0
        row = submit(session, request)
        return _after(session, row, given)


def _after(session: Session, row: RunRow, given: dict[str, Any]) -> int:
    """What the caller wanted besides the run itself."""
    from gofer.ops.portal import page_of

    if not (given["follow"] or given["as_json"]):
        sys.stdout.write(row.id + "\n")
        sys.stdout.flush()
    session.say(f"{row.id} on `{row.target}`; `gofer q {row.short_id}` shows where it stands")
    if row.kind == "run" and (page := page_of(session, row)):
        session.say(f"its page: {page}")
    status = 0
    if given["follow"] or given["wait"]:
        from gofer.cli.following import follow_to_end, wait_to_end
    if given["follow"]:
        status, row = follow_to_end(session, row, quiet=given["quiet"], to_stderr=given["as_json"])
    elif given["wait"]:
        status, row = wait_to_end(session, row, quiet=given["quiet"])
    if given["as_json"]:
        from gofer.cli.json_output import print_run

        print_run(session, row)
    return status


def _any_file(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem]:
    return [CompletionItem(start, type="file")]


_WHERE = [
    target_option("Where to run; the default target unless told"),
    Option("-n --gpus", "GPUs of the whole run", type=int, metavar="N"),
    Option("-N --nodes", "Nodes to spread over", type=int, metavar="N"),
    Option("--procs", "Processes on each node; one a GPU unless told", type=int, metavar="N"),
    Option("--cpus", "CPUs for each process", type=int, metavar="N"),
    Flag("--single", "One process on each node, whatever its GPUs"),
    Option("--launcher", "What starts the processes: `spawn` unless told, or `mpi`", metavar="NAME"),
]
_WHAT = [
    Option("--name", "A name for people; made from the command unless given", metavar="NAME"),
    Option("--tag tags", "A tag to find the run by", multiple=True, metavar="K[=V]"),
    Option(
        "-e --env env",
        "A variable for the command; `K` alone takes its value from here",
        multiple=True,
        metavar="K[=V]",
    ),
    Option(
        "--sync",
        "Send outputs that fit this pattern to the store while it runs, not only at the end; '' for none",
        multiple=True,
        metavar="PATTERN",
    ),
    Option("--setup", "A shell script to run once on each node before the command", metavar="TEXT"),
    Option(
        "--job",
        "Read the job from this file; options given here win",
        metavar="FILE.yaml",
        shell_complete=_any_file,
    ),
    Flag("--no-code", "Send no code: run in an empty folder"),
    Option(
        "--each",
        "Run once for each value, in every combination; `{K}` in the command is replaced",
        multiple=True,
        metavar="K=V,…",
    ),
    Option("--array", "Run once for each row of this table", metavar="FILE.csv", shell_complete=_any_file),
]
_HOW = [
    Option("--priority", "Higher goes first; 0 unless told", type=int, metavar="N"),
    Option("--time-limit", "Stop it after this time, such as `90s` or `12h`", metavar="TIME"),
    Option("--grace", "The time between asking it to stop and killing it", metavar="TIME"),
    Option("--retries", "How often to try again when it fails", type=int, metavar="N"),
    Option(
        "--retry-on", "Which reasons are tried again, such as `preempted,node-failure`", metavar="REASON,…"
    ),
]
_THEN = [
    Flag("-f --follow", "Print its log until it ends, and exit as it did"),
    Flag("--wait", "Wait until it ends, and exit as it did"),
    Flag("--dry-run", "Print what would be sent, and stop"),
    json_option("Print the run as JSON instead of its id"),
    quiet_option(),
]

command = Command(
    "submit",
    run,
    [
        *_WHERE,
        *_WHAT,
        *_HOW,
        *_THEN,
        click.Argument(
            ["command"], nargs=-1, type=click.UNPROCESSED, metavar="COMMAND…", shell_complete=_any_file
        ),
    ],
    help="Run a command on a target, with the code of this folder as it is now. Prints the run's id.\n\n"
    "The first word that is no option begins the command: everything behind it belongs to the command.\n\n"
    "\b\n"
    "  gofer submit python train.py --data voc20\n"
    "  gofer submit -n 8 -c lab --tag lr=0.1 python train.py\n"
    "  gofer submit --each lr=0.1,0.01 python train.py --lr {lr}\n"
    "  gofer submit -n 4 ssh\n\n"
    "`ssh` alone holds GPUs to work on by hand: it runs nothing, for 8 hours unless `--time-limit` says "
    "otherwise. On a terminal, or with `--wait`, it waits until they are there; a terminal then enters, as "
    "`gofer ssh RUN` does. `gofer abort RUN` gives them back.",
    takes_command=True,
)
