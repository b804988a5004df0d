"""`gofer upload`, `gofer u`: data to the store of its mapped folder, or from one target to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, offers, target_option
from gofer.cli.transfer_options import move, moving_options
from gofer.errors import UsageError
from gofer.ops.data import data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.data.steps import Step
    from gofer.ops.session import Session
    from gofer.transfer import TransferOptions


class _Options(TypedDict):
    paths: tuple[str, ...]
    source: str | None
    pack: bool
    target: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    checksum: bool
    jobs: int | None
    dry_run: bool
    as_json: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """Upload; 1 when a file failed. The other files are uploaded."""
    source = given["source"]
    if source and given["pack"]:
        raise UsageError(
            "`--pack` is for files of this machine, and `-f` names a target", hint="leave out one"
        )

    def make(session: Session, options: TransferOptions) -> Sequence[Step]:
        if source:
            return data.between(session, given["paths"], source, given["target"], options)
        return data.upload(session, given["paths"], given["target"], options, pack=given["pack"])

    return move(given, make)


command = Command(
    "upload",
    run,
    [
        click.Argument(["paths"], nargs=-1, required=True, metavar="PATH…", shell_complete=offers("paths")),
        target_option("Copy from this target", "-f --from source", default_text="this machine"),
        Flag("--pack", "Store a folder of many small files as few large ones"),
        *moving_options(),
    ],
    help="Send files and folders to the stores of their mapped folders. Files that are there already are "
    "skipped; an interrupted transfer continues where it stopped.\n\n\b\n"
    "  gofer u data/voc20\n"
    "  gofer u --pack data/imagenet\n"
    "  gofer -c eu -f we3v32 u data/voc20    from the one target's store to the other's",
)
