"""`gofer target add` and `rm`: targets in a file of settings, set up by visiting their cluster."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.commands.clusters.machine_login import log_in_on
from gofer.cli.commands.runs.submit import command as submit_command
from gofer.cli.options import Command, Flag, Option, offers
from gofer.cli.output.screen import print_message
from gofer.errors import UsageError
from gofer.ops.accounts.machine_logins import USUAL_KEEP, LoginMachine, keep_s_of
from gofer.ops.session import Session
from gofer.ops.settings.config_edit import settings_file
from gofer.ops.settings.target_add import (
    add_target,
    addable_kinds,
    check_new_name,
    prepare_target,
    remove_target,
)

if TYPE_CHECKING:
    from gofer.backends.target_setup import Fact, Question
    from gofer.transport.ssh_errors import LoginNeeded

_TRIAL = 'echo "gofer reaches $(hostname)"; nvidia-smi -L 2>/dev/null || true'


class _AddOptions(TypedDict):
    name: str
    options: tuple[str, ...]
    kind: str | None
    hosts: tuple[str, ...]
    project: bool
    no_try: bool
    dry_run: bool
    force: bool


def add(**given: Unpack[_AddOptions]) -> int:
    """The YAML on stdout with --dry-run, else the log of the trial run. Exits as the trial run."""
    is_asked = sys.stdin.isatty() and sys.stderr.isatty()
    name = given["name"]
    typed = _typed(given["options"], given["hosts"])
    with Session() as session:
        file = settings_file(session, project=given["project"])
        check_new_name(session, file, name, force=given["force"])
        kind = given["kind"] or (_ask_kind() if is_asked else _without_kind(name))
        log_in = partial(_offer_login, session, name) if is_asked else None
        new = prepare_target(session, name, kind, typed, _ask if is_asked else None, _show, log_in)
        text = add_target(session, file, new)
        if given["dry_run"]:
            sys.stdout.write(new.as_yaml())
            return 0
        file.write(text)
    sys.stderr.write(new.as_yaml())
    print_message(f"wrote the target `{name}` to {file.shown}")
    status = 0 if given["no_try"] else _try(name)
    if status:
        print_message(f"the target stays in {file.shown}; `gofer target rm {name}` removes it")
    _print_next(name)
    return status


def _typed(options: tuple[str, ...], hosts: tuple[str, ...]) -> dict[str, str]:
    found = {"host": ",".join(hosts)} if hosts else {}
    for word in options:
        key, mark, value = word.partition("=")
        if not mark or not key:
            raise UsageError(f"`{word}` is not an option of the target", hint="write it like `partition=gpu`")
        found[key] = value
    return found


def _without_kind(name: str) -> str:
    kinds = ", ".join(f"`{kind}`" for kind in addable_kinds())
    raise UsageError(
        f"the kind of the target is missing; it is one of {kinds}",
        hint=f"`gofer target add {name} --kind ssh --host user@host`",
    )


def _ask_kind() -> str:
    kinds = addable_kinds()
    return str(click.prompt("kind of target", type=click.Choice(kinds), default="ssh", err=True))


def _ask(question: Question) -> str:
    kind = click.Choice(question.choices) if question.choices else None
    return str(click.prompt(question.text, type=kind, default=question.default, err=True))


def _show(fact: Fact) -> None:
    print_message(f"{fact.name}: {fact.value}")


def _offer_login(session: Session, target: str, host: str, error: LoginNeeded) -> None:
    """Log in on the host, and on the jump hosts on the way, if the person wants to; else raise the error."""
    print_message(error.message)
    if not click.confirm(f"log in to {host} on this terminal now?", default=True, err=True):
        raise error
    log_in_on(session, [LoginMachine(host, target)], keep_s_of(USUAL_KEEP))


def _try(name: str) -> int:
    """Run a short command on the target and follow it; the exit status of the run."""
    print_message("a trial run (Ctrl-C leaves it running; `--no-try` leaves it out):")
    words = ["-c", name, "--no-code", "--name", "trial", "--time-limit", "10m", "-n", "0", "-f"]
    with submit_command.make_context("submit", [*words, "sh", "-c", _TRIAL]) as context:
        status = submit_command.invoke(context)
    return int(status or 0)


def _print_next(name: str) -> None:
    print_message("next:")
    for line, what in (
        (f"gofer -c {name} submit python train.py", "run a command there"),
        (f"gofer target show {name}", "what the target has"),
        (f"gofer config set target {name}", "make it the default target"),
    ):
        print_message(f"  {line:<44} {what}")


class _RemoveOptions(TypedDict):
    name: str
    project: bool


def remove(**given: Unpack[_RemoveOptions]) -> int:
    """Nothing on stdout."""
    name = given["name"]
    with Session() as session:
        file = settings_file(session, project=given["project"])
        file.write(remove_target(session, file, name))
    print_message(f"removed the target `{name}` from {file.shown}; its runs can still be listed and read")
    return 0


_PROJECT = Flag("--project", "The project's gofer.yaml instead of your own config.yaml")

add_command = Command(
    "add",
    add,
    [
        click.Argument(["name"], metavar="NAME"),
        click.Argument(["options"], nargs=-1, metavar="[KEY=VALUE]…"),
        Option("--kind", "The kind of target", default_text="asked on a terminal", metavar="KIND"),
        Option(
            "--host hosts",
            "The machine or the login node, as a host for ssh; again for each machine of the target",
            default_text="asked on a terminal",
            multiple=True,
            metavar="HOST",
        ),
        _PROJECT,
        Flag("--no-try", "Do not run a command on the new target"),
        Flag("--dry-run", "Print the YAML, and write and run nothing"),
        Flag("--force", "Replace a target of this name"),
    ],
    help="Add a target to your file of settings: a machine over SSH, a Slurm site or an Azure ML compute. "
    "Visits the cluster, shows what it has, asks on a terminal for what is open, and tries a run. KEY=VALUE "
    "sets an option of the target: `gofer target add lab --kind slurm --host me@login partition=gpu`.",
)
rm_command = Command(
    "rm",
    remove,
    [click.Argument(["name"], metavar="NAME", shell_complete=offers("targets")), _PROJECT],
    help="Remove a target from your file of settings. Its runs stay, and gofer still reaches them.",
)
