"""`gofer cp`: one file or folder, from here to a store, from a store to here, or between stores."""

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
    source: str
    destination: str
    target: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    checksum: bool
    jobs: int | None
    dry_run: bool
    as_json: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """Copy; 1 when a file failed. The other files are copied."""

    def make(session: Session, options: TransferOptions) -> Sequence[Step]:
        return data.copy(session, given["source"], given["destination"], given["target"], options)

    return move(given, make)


command = Command(
    "cp",
    run,
    [
        click.Argument(["source"], metavar="SRC", shell_complete=offers("paths")),
        click.Argument(["destination"], metavar="DST", shell_complete=offers("paths")),
        *moving_options(),
    ],
    help="Copy a file or a folder. A path in a mapped folder, `STORE:path` and a URL mean a store, "
    "`RUN:path` means the files of a run; `./path`, `/path`, `~/path` and any other word mean this "
    "machine. A DST that ends with a slash is a folder to copy into.\n\n\b\n"
    "  gofer cp ./results.csv data/results.csv\n"
    "  gofer cp blob:me/data/voc20 ./voc20\n"
    "  gofer cp data/voc20 archive:2026/\n"
    "  gofer cp last:model.pt .",
)
