"""`gofer init`: a gofer.yaml to fill in, the code of this folder in the store, an offer to add a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypedDict, Unpack

import click

from gofer.cli.commands.clusters.target_add import add_command
from gofer.cli.options import Command, Flag, quiet_option, target_option
from gofer.cli.output.screen import confirmation_prompt, print_message, print_nothing
from gofer.ops.messages import Message
from gofer.ops.petctl.script import write_script
from gofer.ops.session import Session
from gofer.ops.settings.init import has_cluster, init


class _Options(TypedDict):
    target: str | None
    quiet: bool
    petctl: bool


def run(**given: Unpack[_Options]) -> int:
    """Report on stderr what was done. Idempotent. On a terminal, offers to add a target while no target is a
    cluster, and then exits as `gofer target add`.
    """
    if given["petctl"]:
        return _write_petctl(quiet=given["quiet"])
    ask = confirmation_prompt()
    with Session(
        target=given["target"],
        emit=print_nothing if given["quiet"] else print_message,
        ask=ask,
    ) as session:
        for line in str(init(session)).split("\n"):
            session.emit(Message(line))
        is_offered = ask is not None and not given["quiet"] and not has_cluster(session)
    if ask is None or not is_offered:
        return 0
    if ask("add a cluster (a machine over SSH, Slurm or Azure ML) as a target now?"):
        return _add_target()
    print_message("`gofer target add NAME` adds one later")
    return 0


def _write_petctl(*, quiet: bool) -> int:
    for path in write_script(Path.cwd()):
        (print_nothing if quiet else print_message)(Message(f"wrote {os.path.relpath(path)}"))
    if not quiet:
        print_message(Message("next: `python petctl.py configure --name NAME --min_size 1 --max_size 5`"))
    return 0


def _add_target() -> int:
    name = click.prompt("name of the target, such as lab", err=True)
    with add_command.make_context("add", [name]) as context:
        return int(add_command.invoke(context) or 0)


command = Command(
    "init",
    run,
    [
        target_option("Send the code to this target's store", default_text="the project's default target"),
        Flag("--petctl", "Only write petctl.py, which has the verbs of petctl"),
        quiet_option(),
    ],
    help="Make this folder ready: write a gofer.yaml if there is none, and send the code so that the next "
    "submit is quick. On a terminal, and while no target is a cluster, it offers `gofer target add`.",
)
