"""`gofer download`, `gofer d`: files and folders from their store to the mapped folders of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, offers
from gofer.cli.transfer_options import move, moving_options
from gofer.ops.data import data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.data.steps import Step
    from gofer.ops.session import Session
    from gofer.transfer import TransferOptions


class _Options(TypedDict):
    paths: tuple[str, ...]
    target: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    checksum: bool
    jobs: int | None
    dry_run: bool
    as_json: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """Download; 1 when a file failed. The other files are downloaded."""

    def make(session: Session, options: TransferOptions) -> Sequence[Step]:
        return data.download(session, given["paths"], given["target"], options)

    return move(given, make)


command = Command(
    "download",
    run,
    [
        click.Argument(["paths"], nargs=-1, required=True, metavar="PATH…", shell_complete=offers("paths")),
        *moving_options(),
    ],
    help="Bring files and folders from the stores of their mapped folders. Files that are here already are "
    "skipped; a file appears under its name once it is complete and checked.\n\n\b\n"
    "  gofer d data/coco\n"
    "  gofer d 'data/coco/*.json' --exclude '*_test*'",
)
