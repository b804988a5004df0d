"""`gofer extract`: the code, logs and outputs of a run in one folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, filter_option, offers, quiet_option, run_argument, target_option
from gofer.cli.output.screen import print_message, print_nothing
from gofer.cli.run_choice import choose_runs
from gofer.errors import UsageError
from gofer.ops.files.extract import extract, name_in_code
from gofer.ops.messages import Message
from gofer.ops.runs.freshness import refresh_runs
from gofer.ops.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gofer.tracking.ledger import RunRow

_MOST_NAMED = 20


class _Options(TypedDict):
    run: str | None
    folder: str | None
    filters: tuple[str, ...]
    target: str | None
    force: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """Fill DIR, and report on stderr what was written; 1 when a file could not be copied."""
    from pathlib import Path

    *named, word = _words(given)
    folder = Path(word)
    with Session(target=given["target"], emit=print_nothing if given["quiet"] else print_message) as session:
        rows = refresh_runs(session, choose_runs(session, named, given["filters"], target=given["target"]))
        name_in_code(session, folder)
        for row in rows:
            if not row.is_final:
                session.emit(
                    Message(f"{row.short_id} has not ended: what it has written up to now is copied")
                )
        failed = [
            one
            for row in rows
            for one in _extract(session, row, folder / row.short_id if given["filters"] else folder, given)
        ]
    _print_each_failure(failed)
    return 1 if failed else 0


def _words(given: _Options) -> list[str]:
    """RUN and DIR; with a filter only DIR, which is then the first word."""
    words = [word for word in (given["run"], given["folder"]) if word is not None]
    wanted = ("DIR",) if given["filters"] else ("RUN", "DIR")
    if len(words) == len(wanted):
        return words
    missing = f"missing argument '{wanted[len(words)]}'" if len(words) < len(wanted) else ""
    raise UsageError(
        missing or f"`{words[0]}` names a run, and `--filter` chooses runs",
        hint="`gofer extract RUN DIR`, or `gofer extract --filter FILTER DIR`",
    )


def _extract(session: Session, row: RunRow, folder: Path, given: _Options) -> Sequence[tuple[str, str]]:
    """Fill the folder of one run, and report what was written; the files that could not be copied."""
    done = extract(session, row, folder, force=given["force"])
    for name, below in (("code", "code"), ("log", "logs"), ("output", "outputs")):
        count = _counted(getattr(done, f"{name}_files"), f"{name} file")
        session.emit(Message(f"{count} in {folder / below}"))
    if done.kept_files:
        words = f"{_counted(done.kept_files, 'file')} that it wrote beside its code"
        session.emit(Message(f"{words} in {folder / 'files'}"))
    _print_each(session, "left out", done.left_out)
    return done.failed


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
        run_argument(required=False),
        click.Argument(["folder"], required=False, metavar="DIR", shell_complete=offers("files")),
        filter_option("The runs that match, each in DIR/<short id>, instead of RUN"),
        target_option("Only look among the runs on this target"),
        Flag("--force", "Write to a DIR that is not empty, and bring it up to date"),
        quiet_option(),
    ],
    help="Bring back the parts of a run: DIR/code, the code it ran with; DIR/logs, the logs of all its "
    "attempts; DIR/outputs, the files it wrote to $GOFER_OUTPUT_DIR; DIR/files, the files it wrote "
    "beside its code. Modes, times, links, empty folders and sparse files are kept. When some files "
    "cannot be read, gofer names them, brings the others, and exits with 1.",
)
