"""Shared code of the commands that copy data: options, comparison before the copy, and the summary."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict

import click

from gofer.cli.options import Flag, Option, json_option, quiet_option, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.progress import Display, rate
from gofer.cli.output.screen import print_message, print_nothing, printable
from gofer.config.redact import mask
from gofer.ops.data.steps import compare, go
from gofer.ops.messages import Message
from gofer.ops.session import Session
from gofer.text import format_duration, format_size
from gofer.transfer import TransferOptions, TransferProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gofer.ops.data.steps import Step, StepsResult, Work

    Make = Callable[[Session, TransferOptions], Sequence[Step]]

_SHOWN = 5


def moving_options() -> list[click.Parameter]:
    """The options of every command that copies data."""
    return [
        target_option("Use the folders of this target", default_text="the project's default target"),
        Option(
            "--include",
            "Only files that match this pattern, as in `.gitignore`; may be repeated",
            multiple=True,
            metavar="PATTERN",
        ),
        Option(
            "--exclude",
            "Leave out files that match this pattern; may be repeated",
            multiple=True,
            metavar="PATTERN",
        ),
        Flag("--checksum", "Compare files of equal size by contents instead of by time"),
        Option(
            "-j --jobs",
            "Number of requests to the stores at the same time",
            default_text="chosen by measuring",
            type=click.IntRange(min=1, max=1024),
            metavar="N",
        ),
        Flag("--dry-run", "Show what would be copied, without copying"),
        json_option("Print a summary as JSON"),
        quiet_option(),
    ]


class MoveOptions(TypedDict):
    """The options that the commands which copy files share."""

    target: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    checksum: bool
    jobs: int | None
    dry_run: bool
    as_json: bool
    quiet: bool


def move(given: MoveOptions, make: Make, *, delete: bool = False) -> int:
    """Compare source and destination, copy the differences and print a summary; the exit status, 1 when a
    file was not copied or not removed. Nothing is changed with `--dry-run`.

    `make` builds the steps. With `delete`, files that the source lacks are removed.
    """
    options = TransferOptions(
        tuple(given["include"]), tuple(given["exclude"]), given["checksum"], delete, given["jobs"] or 0
    )
    progress = TransferProgress()
    with Session(target=given["target"], emit=print_nothing if given["quiet"] else print_message) as session:
        with Display(progress, quiet=given["quiet"] or given["dry_run"]):
            steps = make(session, options)
            work = compare(steps, progress)
        if given["dry_run"]:
            return _preview(session, steps, work, as_json=given["as_json"])
        if work.deletes:
            session.emit(
                Message(f"{_count(work.deletes)} ({format_size(work.delete_bytes)}) will be deleted there")
            )
        with Display(progress, quiet=given["quiet"]):
            outcome = go(session, steps, progress)
        if given["as_json"]:
            print_json(summary(outcome))
        _print_summary(session, outcome)
    return 0 if outcome.ok else 1


def summary(outcome: StepsResult) -> dict[str, object]:
    """What `--json` prints."""
    return {
        "files": outcome.files,
        "bytes": outcome.bytes,
        "skipped": outcome.skipped,
        "deleted": outcome.deleted,
        "kept": outcome.kept,
        "failed": _noted(outcome.failed),
        "changed": _noted(outcome.changed),
        "not_sent": _noted(outcome.odd),
        "elapsed_s": round(outcome.elapsed_s, 3),
    }


def _noted(notes: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"path": path, "why": why} for path, why in notes]


def _preview(session: Session, steps: Sequence[Step], work: Work, *, as_json: bool) -> int:
    if as_json:
        print_json({"dry_run": True, **work._asdict()})
        return 0
    for step in steps:
        for verb, path, size in step.preview():
            sys.stdout.write(f"{verb:<6}  {format_size(size):>10}  {printable(path)}\n")
    session.emit(
        Message(
            f"would send {_count(work.files)}, {format_size(work.bytes)}; {_rest(work.skipped, work.deletes)}"
        )
    )
    return 0


def _rest(skipped: int, deleted: int) -> str:
    words = f"{skipped:,} are there already"
    return f"{words}, {deleted:,} would be deleted" if deleted else words


def _print_summary(session: Session, outcome: StepsResult) -> None:
    for what, notes in (("failed", outcome.failed), ("changed", outcome.changed), ("not sent", outcome.odd)):
        for path, why in notes[:_SHOWN]:
            print_message(mask(f"{what}: {path}: {why}"))
        if len(notes) > _SHOWN:
            print_message(f"{what}: {len(notes) - _SHOWN:,} more")
    if outcome.kept:
        print_message(f"warning: {_count(outcome.kept)} not deleted, because of earlier errors")
    session.emit(Message(describe(outcome)))


def describe(outcome: StepsResult) -> str:
    """The last line: what was done, how fast, what was there already."""
    if outcome.ok and not outcome.files and not outcome.deleted:
        are = "is" if outcome.skipped == 1 else "are"
        there = f": {_count(outcome.skipped)} {are} there already" if outcome.skipped else ""
        return f"nothing to do{there}"
    words = [f"{_count(outcome.files)}, {format_size(outcome.bytes)}"]
    if outcome.skipped:
        words.append(f"{outcome.skipped:,} there already")
    if outcome.deleted:
        words.append(f"{outcome.deleted:,} deleted")
    if outcome.failures:
        words.append(f"{outcome.failures:,} left undone")
    speed = rate(outcome.bytes, outcome.elapsed_s)
    words.append(f"in {format_duration(outcome.elapsed_s)}{f' ({speed})' if speed else ''}")
    return ", ".join(words)


def _count(files: int) -> str:
    return f"{files:,} file{'' if files == 1 else 's'}"
