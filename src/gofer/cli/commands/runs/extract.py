"""`gofer extract`: the code, logs and outputs of a run in one folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gofer.cli.options import Command, Flag, quiet_option, run_argument, target_option
from gofer.cli.output.screen import print_message, print_nothing
from gofer.ops.files.extract import extract
from gofer.ops.messages import Message
from gofer.ops.runs.find import find
from gofer.ops.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_NAMED = 20


def run(**given: Any) -> int:
    """Fill DIR, and report on stderr what was written; 1 when a file could not be copied."""
    from pathlib import Path

    folder = Path(given["folder"])
    with Session(target=given["target"], emit=print_nothing if given["quiet"] else print_message) as session:
        row = find(session, given["run"], target=given["target"])
        done = extract(session, row, folder, force=given["force"])
        for name in ("code", "log", "output"):
            session.emit(Message(f"{_counted(getattr(done, f'{name}_files'), f'{name} file')} in {folder}"))
        if done.kept_files:
            session.emit(
                Message(f"{_counted(done.kept_files, 'file')} that it wrote beside its code in {folder}")
            )
        _print_each(session, "left out", done.left_out)
    _print_each_failure(done.failed)
    return 1 if done.failed else 0


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _print_each(session: Session, what: str, found: Sequence[tuple[str, str]]) -> None:
    for path, why in found[:_MOST_NAMED]:
        session.emit(Message(f"{what}: {path}, which {why}"))
    if len(found) > _MOST_NAMED:
        session.emit(Message(f"{what}: {len(found) - _MOST_NAMED:,} more"))


def _print_each_failure(failed: Sequence[tuple[str, str]]) -> None:
    """Print every failure, even with `--quiet`: the exit status alone does not say what is missing."""
    for path, why in failed[:_MOST_NAMED]:
        print_message(f"error: {path} did not come: {why}")
    if len(failed) > _MOST_NAMED:
        print_message(f"error: {len(failed) - _MOST_NAMED:,} more did not come")


command = Command(
    "extract",
    run,
    [
        run_argument(),
        click.Argument(["folder"], metavar="DIR"),
        target_option("Only look among the runs on this target"),
        Flag("--force", "Write to a DIR that is not empty, and bring it up to date"),
        quiet_option(),
    ],
    help="Bring back the parts of a run: DIR/code, the code it ran with; DIR/logs, the logs of all its "
    "attempts; DIR/outputs, the files it wrote to $GOFER_OUTPUT_DIR; DIR/files, the files it wrote "
    "beside its code. Modes, times, links, empty folders and sparse files are kept. When some files "
    "cannot be read, gofer names them, brings the others, and exits with 1.",
)
