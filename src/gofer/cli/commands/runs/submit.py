"""`gofer submit`: submit a command as a run, and print its id on stdout."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from gofer.cli.interactive import hold
from gofer.cli.options import Command, Flag, Option, json_option, quiet_option, target_option
from gofer.cli.output.done import record_done, write_result
from gofer.cli.output.follow import follow_to_end, wait_to_end
from gofer.cli.output.run_json import print_run
from gofer.cli.output.screen import CLOSED_PIPE, confirmation_prompt, print_message, print_nothing
from gofer.cli.request import build_request
from gofer.errors import UsageError
from gofer.ops.messages import Message
from gofer.ops.runs.target_views import page_of
from gofer.ops.session import Session
from gofer.ops.submission.submit import plan, submit
from gofer.ops.submission.submitting_shell import say_unread

if TYPE_CHECKING:
    from gofer.tracking.ledger import RunRow


def run(**given: Any) -> int:
    """The run's id, its JSON, its log or the plan on stdout; with `--follow` or `--wait`, its exit status."""
    if not given["command"] and not given["job"]:
        raise UsageError("there is no command to run", hint="for example `gofer submit python train.py`")
    if given["command"] == ("ssh",):
        return hold(given)
    request = build_request(given)
    with Session(
        target=given["target"],
        emit=print_nothing if given["quiet"] else print_message,
        ask=confirmation_prompt(),
    ) as session:
        if given["dry_run"]:
            sys.stdout.write(plan(session, request).rstrip("\n") + "\n")
            return 0
        row = submit(session, request)
        return _after(session, row, given)


def _after(session: Session, row: RunRow, given: dict[str, Any]) -> int:
    """Do what the caller wants after the submission: follow, wait or enter the run."""
    record_done(f"{row.id} was sent", status=CLOSED_PIPE if given["follow"] else 0)
    if not (given["follow"] or given["as_json"]):
        write_result(row.id + "\n")
    session.emit(Message(f"{row.id} on `{row.target}`; `gofer q {row.short_id}` shows where it stands"))
    if row.kind == "run" and (page := page_of(session, row)):
        session.emit(Message(f"its page: {page}"))
    if not given["stdin"]:
        say_unread(session)
    status = 0
    if given["follow"]:
        status, row = follow_to_end(session, row, quiet=given["quiet"], to_stderr=given["as_json"])
    elif given["wait"]:
        status, row = wait_to_end(session, row, quiet=given["quiet"], as_json=given["as_json"])
    if given["as_json"]:
        print_run(session, row)
    return status


def _any_file(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem]:
    return [CompletionItem(start, type="file")]


_WHERE = [
    target_option("The target to run on", default_text="the project's default target"),
    Option(
        "-n --gpus",
        "GPUs of the whole run",
        default_text="`default_gpus` of the target, else 0",
        type=int,
        metavar="N",
    ),
    Option("-N --nodes", "Nodes of the run", default_text="as few as have the GPUs", type=int, metavar="N"),
    Option("--procs", "Processes on each node", default_text="one for each GPU", type=int, metavar="N"),
    Option("--cpus", "CPUs for each process", default_text="1", type=int, metavar="N"),
    Flag("--single", "One process on each node, whatever its GPUs"),
    Option(
        "--rank-variables",
        "Set RANK, WORLD_SIZE, MASTER_ADDR and the like: `auto` (for runs of several processes), `always` or "
        "`never`",
        default_text="auto",
        metavar="WHEN",
    ),
    Option(
        "--launcher",
        "What starts the processes: `spawn`, `mpi` or `torchrun`",
        default_text="spawn",
        metavar="NAME",
    ),
]
_WHAT = [
    Option("--name", "A name for people", default_text="the program's name", metavar="NAME"),
    Option("--tag tags", "A tag to find the run by", multiple=True, metavar="K[=V]"),
    Option(
        "-e --env env",
        "A variable for the command; `K` alone takes its value from here",
        multiple=True,
        metavar="K[=V]",
    ),
    Option(
        "--sync",
        "Send outputs that fit this pattern to the store during the run, not only at its end; '' for none",
        default_text="all outputs where nodes may be taken back, else none",
        multiple=True,
        metavar="PATTERN",
    ),
    Option(
        "--keep",
        "Keep up to this much of what the run writes beside its code; `none` for outputs only",
        default_text="2GiB",
        metavar="SIZE",
    ),
    Option(
        "--outputs",
        "Keep files beside the code that fit this pattern, whatever their size",
        multiple=True,
        metavar="PATTERN",
    ),
    Option(
        "--packages",
        "What installs the Python packages that the code lists: `none`, `auto`, `uv`, `pip` or `conda`",
        default_text="none where the node sees your environment, else auto",
        metavar="NAME",
    ),
    Option("--wheels", "Install packages from this folder of wheels, without Internet", metavar="FOLDER"),
    Option("--setup", "A shell script to run once on each node before the command", metavar="TEXT"),
    Option(
        "--job",
        "Read the job from this file; options given here win",
        metavar="FILE.yaml",
        shell_complete=_any_file,
    ),
    Option(
        "--code-folder",
        "Send the code of this folder, `.` for this one alone",
        default_text="the project",
        metavar="FOLDER",
        shell_complete=_any_file,
    ),
    Option(
        "--include",
        "Send ignored files that fit this pattern along, such as `data/labels/`",
        multiple=True,
        metavar="PATTERN",
    ),
    Flag("--with-git", "Send a small git repository along, so that git answers in the run"),
    Flag("--stdin", "Send standard input along, for rank 0 of the command to read; up to 16 MiB"),
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
    Option("--priority", "Higher goes first", default_text="0", type=int, metavar="N"),
    Option(
        "--time-limit",
        "Stop it after this time, such as `90s` or `12h`",
        default_text="no limit",
        metavar="TIME",
    ),
    Option(
        "--grace", "The time between asking it to stop and killing it", default_text="10s", metavar="TIME"
    ),
    Option("--retries", "How often to try again when it fails", default_text="0", type=int, metavar="N"),
    Option(
        "--retry-on",
        "The reasons to try again",
        default_text="exit-code,signal,preempted,node-failure,staging",
        metavar="REASON,…",
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
    "The first word that is no option begins the command: everything behind it belongs to the command. "
    "`job:` in gofer.yaml and `--job` change the defaults below.\n\n"
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
