"""`gofer sync`: make one folder like another."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, offers
from gofer.cli.transfer_options import move, moving_options
from gofer.ops.data import data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.data.steps import Step
    from gofer.ops.session import Session
    from gofer.transfer import TransferOptions


class _Options(TypedDict):
    source: str
    destination: str
    delete: bool
    target: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    checksum: bool
    jobs: int | None
    dry_run: bool
    as_json: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """Copy, then delete; 1 when anything failed, and then nothing is deleted."""

    def make(session: Session, options: TransferOptions) -> Sequence[Step]:
        return data.sync(session, given["source"], given["destination"], given["target"], options)

    return move(given, make, delete=given["delete"])


command = Command(
    "sync",
    run,
    [
        click.Argument(["source"], metavar="SRC", shell_complete=offers("paths")),
        click.Argument(["destination"], metavar="DST", shell_complete=offers("paths")),
        Flag("--delete", "Delete what only DST has, after everything was copied"),
        *moving_options(),
    ],
    help="Make the folder DST like the folder SRC, each in a store or on this machine, named as for `cp`. "
    "Before `--delete`, look at what `--dry-run` prints.\n\n\b\n"
    "  gofer sync ./data/voc20 data/voc20 --delete --dry-run\n"
    "  gofer sync blob:runs/x ./x",
)
