"""`gofer submit`: submit a command as a run, and print its id on stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from gofer.cli.interactive import hold
from gofer.cli.options import Command, Flag, Option, json_option, offers, quiet_option, target_option
from gofer.cli.output.describe import named, page_words
from gofer.cli.output.done import record_done, write_result
from gofer.cli.output.follow import follow_to_end, wait_to_end
from gofer.cli.output.run_json import print_run
from gofer.cli.output.screen import (
    CLOSED_PIPE,
    confirmation_prompt,
    is_on_screen,
    print_message,
    print_nothing,
)
from gofer.cli.request import SubmitOptions, build_request, misplaced_option
from gofer.errors import UsageError
from gofer.ops.messages import Message
from gofer.ops.runs.target_views import page_of
from gofer.ops.session import Session
from gofer.ops.submission.submit import plan, submit
from gofer.ops.submission.submitting_shell import say_unread

if TYPE_CHECKING:
    from gofer.tracking.ledger import RunRow


def run(**given: Unpack[SubmitOptions]) -> int:
    """The run's id, its JSON, its log or the plan on stdout; with `--follow` or `--wait`, its exit status."""
    if not given["command"] and not given["job"]:
        raise UsageError("there is no command to run", hint="for example `gofer submit python train.py`")
    if given["command"] == ("ssh",):
        return hold(given)
    request = build_request(given)
    if not given["quiet"] and (note := misplaced_option(given["command"], Path.cwd())):
        print_message(note)
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


def _after(session: Session, row: RunRow, given: SubmitOptions) -> int:
    """Do what the caller wants after the submission: follow, wait or enter the run."""
    record_done(f"{row.id} was sent", status=CLOSED_PIPE if given["follow"] else 0)
    if not (given["follow"] or given["as_json"] or is_on_screen(quiet=given["quiet"])):
        write_result(row.id + "\n")
    session.emit(Message(f"submitted {named(row)} to `{row.target}`; `gofer q {row.short_id}` shows it"))
    if row.kind == "run" and (page := page_of(session, row)):
        session.emit(Message(page_words(row, page)))
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


_WHERE = [
    target_option(
        "The target to run on", default_text="`target:` in gofer.yaml, else local", variable="GOFER_TARGET"
    ),
    Option(
        "-n --gpus",
        "GPUs of the whole run",
        default_text="`default_gpus` of the target, else 0",
        variable="GOFER_GPUS",
        type=int,
        metavar="N",
    ),
    Option(
        "-N --nodes",
        "Nodes of the run, or `MIN:MAX` where their number may change while it runs",
        default_text="as few as have the GPUs",
        variable="GOFER_NODES",
        metavar="N",
    ),
    Option(
        "--procs",
        "Processes on each node",
        default_text="one for each GPU",
        variable="GOFER_PROCS",
        type=int,
        metavar="N",
    ),
    Option(
        "--cpus",
        "CPUs for each process",
        default_text="1",
        variable="GOFER_CPUS",
        type=int,
        metavar="N",
    ),
    Option(
        "--memory",
        "Memory on each node: `64G`",
        default_text="not limited by gofer",
        variable="GOFER_MEMORY",
        metavar="SIZE",
    ),
    Option(
        "--gpu-type",
        "The type of the GPUs: `a100`",
        default_text="any",
        variable="GOFER_GPU_TYPE",
        metavar="NAME",
    ),
    Flag("--single", "One process on each node, for any number of GPUs"),
    Option(
        "--rank-variables",
        "Set RANK, WORLD_SIZE, MASTER_ADDR and the like: `auto` (for runs of several processes), `always` or "
        "`never`",
        default_text="auto",
        variable="GOFER_RANK_VARIABLES",
        metavar="WHEN",
    ),
    Option(
        "--launcher",
        "The launcher that starts the processes: `spawn`, `mpi` or `torchrun`",
        default_text="spawn",
        variable="GOFER_LAUNCHER",
        metavar="NAME",
        shell_complete=offers("launchers"),
    ),
]
_WHAT = [
    Option(
        "--name",
        "The name that lists show",
        default_text="the program's name",
        variable="GOFER_NAME",
        metavar="NAME",
    ),
    Option(
        "--tag tags",
        "A tag to find the run by",
        multiple=True,
        metavar="K[=V]",
        shell_complete=offers("tags"),
    ),
    Option(
        "-e --env env",
        "An environment variable for the command; `K` alone copies the current value",
        multiple=True,
        metavar="K[=V]",
    ),
    Option(
        "--sync",
        "Send outputs that match this pattern to the store during the run, not only at its end; '' for none",
        default_text="all outputs where nodes may be taken back, else none",
        variable="GOFER_SYNC",
        multiple=True,
        metavar="PATTERN",
    ),
    Option(
        "--keep",
        "Keep up to this much of what the run writes beside its code; `none` for outputs only",
        default_text="2GiB",
        variable="GOFER_KEEP",
        metavar="SIZE",
    ),
    Option(
        "--outputs",
        "Keep files of any size beside the code that match this pattern",
        variable="GOFER_OUTPUTS",
        multiple=True,
        metavar="PATTERN",
    ),
    Option(
        "--packages",
        "The installer of the Python packages that the code lists: `none`, `auto`, `uv`, `pip` or `conda`",
        default_text="none where the node sees your environment, else auto",
        variable="GOFER_PACKAGES",
        metavar="NAME",
    ),
    Option(
        "--wheels",
        "Install packages from this folder of wheels, without Internet",
        variable="GOFER_WHEELS",
        metavar="FOLDER",
    ),
    Option(
        "--setup",
        "A shell script to run once on each node before the command",
        variable="GOFER_SETUP",
        metavar="TEXT",
    ),
    Option(
        "--job",
        "Read the job from this file; options of the command line override it",
        metavar="FILE.yaml",
        shell_complete=offers("files"),
    ),
    Option(
        "--code-folder",
        "Send the code of this folder; `.` is the current folder alone",
        default_text="the project",
        metavar="FOLDER",
        shell_complete=offers("files"),
    ),
    Option(
        "--code",
        "Take the code as it was sent last (`last`) or with a run, or from this folder of a store",
        default_text="from the project as it is now",
        metavar="last|RUN|STORE:PATH",
        shell_complete=offers("paths"),
    ),
    Option(
        "--include",
        "Also send ignored files that match this pattern, for example `data/labels/`",
        multiple=True,
        metavar="PATTERN",
    ),
    Flag("--with-git", "Also send a small git repository, so that git works in the run"),
    Flag("--stdin", "Also send standard input, up to 16 MiB; rank 0 of the command reads it"),
    Flag("--no-code", "Send no code: run in an empty folder"),
    Option(
        "--each",
        "Run once for each value, in every combination; `{K}` in the command is replaced",
        multiple=True,
        metavar="K=V,…",
    ),
    Option(
        "--array", "Run once for each row of this table", metavar="FILE.csv", shell_complete=offers("files")
    ),
]
_HOW = [
    Option(
        "--after",
        "Start when this run of the target has succeeded, or with `:any` when it has ended",
        multiple=True,
        metavar="RUN[:ok|any]",
    ),
    Option(
        "--priority",
        "Runs of a higher priority start first",
        default_text="0",
        variable="GOFER_PRIORITY",
        type=int,
        metavar="N",
    ),
    Option(
        "--time-limit",
        "Stop the run after this time, for example `90s` or `12h`",
        default_text="no limit",
        variable="GOFER_TIME_LIMIT",
        metavar="TIME",
    ),
    Option(
        "--grace",
        "The time between SIGTERM and SIGKILL when the run is stopped",
        default_text="10s",
        variable="GOFER_GRACE",
        metavar="TIME",
    ),
    Option(
        "--retries",
        "How often to try again when the run fails",
        default_text="0",
        variable="GOFER_RETRIES",
        type=int,
        metavar="N",
    ),
    Option(
        "--retry-on",
        "The reasons to try again",
        default_text="exit-code,signal,preempted,node-failure,staging",
        variable="GOFER_RETRY_ON",
        metavar="REASON,…",
        shell_complete=offers("reasons"),
    ),
]
_THEN = [
    Flag("-f --follow", "Follow the log until the run ends, and exit with its status"),
    Flag("--wait", "Wait until the run ends, and exit with its status"),
    Flag("--dry-run", "Show what would be submitted, without submitting"),
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
            ["command"], nargs=-1, type=click.UNPROCESSED, metavar="COMMAND…", shell_complete=offers("files")
        ),
    ],
    help="Run a command on a target, with the code of this folder as it is now. Prints the run's id.\n\n"
    "Options come before the command. What follows the first word belongs to the command. `job:` in "
    "gofer.yaml and `--job` change the defaults below.\n\n"
    "\b\n"
    "  gofer submit python train.py --data voc20\n"
    "  gofer submit -n 8 -c lab --tag lr=0.1 python train.py\n"
    "  gofer submit --each lr=0.1,0.01 python train.py --lr {lr}\n"
    "  gofer submit -n 4 ssh\n\n"
    "`gofer submit -n 4 ssh` reserves GPUs for 8 hours, or for `--time-limit`, and opens a shell on them. "
    "`gofer ssh RUN` opens another shell, and `gofer abort RUN` frees the GPUs.",
    takes_command=True,
)
