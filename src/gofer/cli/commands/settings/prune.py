"""`gofer prune`: remove what gofer keeps and no run needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

from gofer.cli.options import Command, Flag, Option, filter_option, json_option, quiet_option, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import confirmation_prompt, print_message, print_nothing
from gofer.cli.output.table import Column, render, screen_width
from gofer.errors import UsageError
from gofer.ops.messages import Message
from gofer.ops.prune.prune import PruneRequest, PruneResult, remove, survey
from gofer.ops.runs.freshness import refresh_active
from gofer.ops.session import Session
from gofer.text import format_size, format_time, parse_duration_s
from gofer.tracking.query import parse_filters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gofer.backends.base import Prunable
    from gofer.ops.prune.prune import PruneSurvey


class _Options(TypedDict):
    older_than: str | None
    target: str | None
    all: bool
    code: bool
    runs: bool
    filters: tuple[str, ...]
    dry_run: bool
    yes: bool
    as_json: bool
    quiet: bool


def run(**given: Unpack[_Options]) -> int:
    """Survey, show, ask, remove; 1 when a place could not be asked, or the answer was no."""
    wanted = _prune_request(given)
    with Session(target=given["target"], emit=print_nothing if given["quiet"] else print_message) as session:
        refresh_active(session)  # runs that have ended in the meantime must not count as open
        found = survey(session, wanted)
        _show(session, found, as_json=given["as_json"])
        done = PruneResult((), {})
        if found.removable and not given["dry_run"]:
            if not given["yes"] and not _agreed(found):
                print_message("nothing was removed")
                return 1
            done = remove(found)
            for name, why in done.silent.items():
                print_message(f"warning: {name}: {why}")
            size = format_size(sum(one.size for one in done.removed))
            session.emit(Message(f"{_things(len(done.removed))} removed, {size} freed"))
        if given["as_json"]:
            _print(found, done, dry_run=given["dry_run"])
        return 1 if found.silent or done.silent else 0


def _prune_request(given: _Options) -> PruneRequest:
    if given["target"] and given["all"]:
        raise UsageError("`--all` is every target, and `--target` is one", hint="leave one of them out")
    if given["filters"] and not given["runs"]:
        raise UsageError("`--filter` says which whole runs go", hint="add `--runs`")
    return PruneRequest(
        older_than_s=parse_duration_s(given["older_than"]) if given["older_than"] else None,
        target=given["target"],
        everywhere=given["all"],
        code=given["code"],
        runs=given["runs"],
        filters=parse_filters(given["filters"]),
    )


def _show(session: Session, found: PruneSurvey, *, as_json: bool) -> None:
    for name, why in found.silent.items():
        print_message(f"warning: {name} was skipped: {why}")
    if found.elsewhere:
        session.emit(
            Message(f"{found.elsewhere} more runs stay: each is removed on the machine that submitted it")
        )
    if as_json:
        return
    if not found.removable:
        session.emit(Message("there is nothing to remove"))
        return
    columns = [
        Column("PLACE", flexible=True),
        Column("KIND"),
        Column("COUNT", right=True),
        Column("SIZE", right=True),
        Column("WHY", flexible=True),
    ]
    sys.stdout.write(render(columns, list(_lines(found.removable)), fit=screen_width()))
    sys.stdout.flush()


def _lines(found: Iterable[Prunable]) -> Iterable[list[str]]:
    """One line for each kind in each place, with the reason of the first item."""
    groups: dict[tuple[str, str], list[Prunable]] = {}
    for one in found:
        groups.setdefault((one.place, one.kind), []).append(one)
    for (place, kind), items in groups.items():
        size = format_size(sum(one.size for one in items))
        yield [place, kind, f"{len(items):,}", size, items[0].why]


def _agreed(found: PruneSurvey) -> bool:
    things, size = _things(len(found.removable)), format_size(sum(one.size for one in found.removable))
    ask = confirmation_prompt()
    if ask is None:
        raise UsageError(
            f"{things}, {size}, would be removed, and no terminal can confirm it",
            hint="add `--yes`",
        )
    runs = [one for one in found.removable if one.kind == "run"]
    what = f"{things}, {size}"
    if runs:
        lost = format_size(sum(one.size for one in runs))
        many = "run" if len(runs) == 1 else "runs"
        what += f", among it {len(runs):,} whole {many} with logs and outputs ({lost})"
    return ask(f"remove {what}?")


def _things(count: int) -> str:
    return f"{count:,} thing{'' if count == 1 else 's'}"


def _print(found: PruneSurvey, done: PruneResult, *, dry_run: bool) -> None:
    gone = {one[:3] for one in done.removed}  # place, kind and name: sizes may differ after a survey
    items = [
        {**one._asdict(), "at": format_time(one.at), "removed": one[:3] in gone} for one in found.removable
    ]
    silent = [{"place": name, "why": why} for name, why in {**found.silent, **done.silent}.items()]
    freed = sum(one.size for one in done.removed)
    print_json({"dry_run": dry_run, "items": items, "removed": len(gone), "freed": freed, "silent": silent})


command = Command(
    "prune",
    run,
    [
        Option(
            "--older-than",
            "Only of runs that ended this long ago, and what was not used for as long",
            default_text="30d",
            metavar="TIME",
        ),
        target_option(
            "Only what this target keeps", default_text="this machine and the project's default target"
        ),
        Flag("--all", "This machine and every target"),
        Flag("--code", "Also code in the stores that no run there has"),
        Flag("--runs", "Also whole runs: records, logs, outputs; needs --older-than or --filter"),
        filter_option("With --runs, only runs that match, as in `gofer list runs`"),
        Flag("--dry-run", "Show what would be removed, without removing"),
        Flag("-y --yes", "Do not ask"),
        json_option("Print every item as JSON"),
        quiet_option(),
    ],
    help="Remove what gofer keeps and no run needs: what clusters keep for ended runs, "
    "copies of mapped folders, agents of other versions, copies of logs, expired tokens. All of it "
    "can be made again. Shows the list and asks; without a terminal it needs `--yes`. Nothing of a "
    "run that has not ended is removed. A place that cannot be reached is named and skipped, and "
    "the exit status is 1 then.",
)
