"""`gofer list runs`: the ledger as a table, JSON or a file."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, Option, filter_option, json_option, offers, target_option
from gofer.cli.output.columns import EXPORTED, SHOWN, parse_columns
from gofer.cli.output.run_table import run_table
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import screen_width
from gofer.cli.output.theme import has_colours
from gofer.errors import ConfigError, UsageError
from gofer.ops.runs.find import find, targets_meant
from gofer.ops.runs.freshness import ANSWER_S, refresh_active
from gofer.ops.session import Session
from gofer.tracking.query import Filter, Query, parse_filters

if TYPE_CHECKING:
    from gofer.ops.runs.freshness import StaleRuns
    from gofer.tracking.ledger import Selection

_USUAL = 20
_NO_RUN = (
    "no run yet; `gofer submit COMMAND` makes the first, `gofer list runs --everywhere` finds those of others"
)
# For more runs than this, `--json` does not read the stores to find their logs.
_LOOKED_UP = 100


class ListRunsOptions(TypedDict):
    """The options of `gofer list runs`."""

    target: str | None
    filters: tuple[str, ...]
    group: str | None
    rows: bool
    columns: str | None
    sort: str | None
    reverse: bool
    last: int | None
    all: bool
    watch: bool
    everywhere: bool
    export: str | None
    as_json: bool


def run(**given: Unpack[ListRunsOptions]) -> int:
    """See `list_matching`."""
    return list_matching(given)


def list_matching(given: ListRunsOptions) -> int:
    """Print the runs that match; 0 even when there are none."""
    names = parse_columns(given["columns"]) if given["columns"] else None
    with Session(target=given["target"]) as session:
        if given["everywhere"]:
            _discover_runs(session)
        query = _query(session, given)
        if given["watch"]:
            _watch(session, query, names, given)
        stale = refresh_active(session, limit_s=ANSWER_S)
        rows = _select(session, query, given)
        if given["target"] and not rows:
            _check_target(session, given["target"])
        if given["export"]:
            _export(rows, names, given["export"])
        elif given["as_json"]:
            _print_json(session, rows, stale)
        else:
            _print_table(rows, names or SHOWN, spare=names is None)
        _print_more_hint(session, query, rows, given)
    return 0


def _discover_runs(session: Session) -> None:
    from gofer.ops.maintenance.rebuild import discover  # `list runs` must stay instant

    print_message(f"{discover(session)} runs of other machines were found in the stores")


def _query(session: Session, given: ListRunsOptions) -> Query:
    filters = parse_filters(given["filters"])
    if given["target"]:
        filters += (Filter("target", "=", targets_meant(session, given["target"])),)
    if given["group"]:
        filters += (Filter("group", "=", (_group_id(session, given["group"]),)),)
    limit = None if given["all"] else given["last"] or (None if given["export"] else _USUAL)
    return Query(
        filters=filters,
        sort=given["sort"],
        reverse=given["reverse"],
        limit=limit,
        include_rows=given["rows"],
        records=given["as_json"],
    )


def _check_target(session: Session, name: str) -> None:
    """UnknownName for a target that no settings and no run have. Settings with errors are not searched."""
    if not session.ledger.count(Query(filters=(Filter("target", "=", targets_meant(session, name)),))):
        with suppress(ConfigError):
            for one in session.settings.targets_of(name):
                session.settings.target(one)


def _group_id(session: Session, reference: str) -> str:
    group = find(session, reference)
    if group.kind != "group":
        raise UsageError(
            f"`{group.short_id}` is a single run, not a group", hint=f"`gofer q {group.short_id}`"
        )
    return group.id


def _select(session: Session, query: Query, given: ListRunsOptions) -> Selection:
    """The runs of the query. The rows of one group were all submitted at once, so they come by their index,
    unless the person chose an order.
    """
    if not given["group"] or given["sort"]:
        return session.ledger.selection(query)
    return session.ledger.selection(query._replace(limit=None, sort="row")).first(query.limit)


def _print_json(session: Session, rows: Selection, stale: StaleRuns) -> None:
    from gofer.cli.output.run_json import print_runs  # loads what `list runs` does not need

    print_runs(session, rows, stale, from_store=len(rows) <= _LOOKED_UP)


def _print_table(rows: Selection, names: tuple[str, ...], *, spare: bool) -> None:
    table = run_table(rows, names, spare=spare, fit=screen_width(), colour=has_colours(sys.stdout))
    sys.stdout.write(table)


def _watch(session: Session, query: Query, names: tuple[str, ...] | None, given: ListRunsOptions) -> NoReturn:
    from gofer.cli.commands.runs.list_watch import Shown, watch  # loads backends, and is rarely used

    for name, value in (("export", given["export"]), ("json", given["as_json"])):
        if value:
            raise UsageError(
                f"`--{name}` cannot be combined with `--watch`",
                hint="leave it out; `gofer wait RUN --json` waits for the end of runs",
            )
    watch(session, Shown(lambda: _select(session, query, given), names or SHOWN, names is None))


def _export(rows: Selection, names: tuple[str, ...] | None, file: str) -> None:
    from gofer.cli.output.export import write_runs  # rarely used

    write_runs(rows, names or EXPORTED, file, all_tags=names is None)
    print_message(f"{len(rows)} runs written to {file}")


def _print_more_hint(session: Session, query: Query, rows: Selection, given: ListRunsOptions) -> None:
    if query.limit is None or len(rows) < query.limit or given["last"]:
        if not rows:
            print_message("no run matches" if query.filters else _NO_RUN)
        return
    total = session.ledger.count(query)
    if total > len(rows):
        print_message(f"{len(rows)} of {total} runs; `--all` shows all")


def parameters(most: str) -> list[click.Parameter]:
    """The options of `list runs` and `list jobs`; `most` says how many rows `--last` shows by default."""
    return [
        target_option("Only the runs on this target or group of targets"),
        filter_option("Only the runs that match: `state=failed`, `gpus>=4`, `age<7d`, `tag.lr=0.1`"),
        Option("--group", "Only the rows of this group", metavar="RUN", shell_complete=offers("runs")),
        Flag("--rows", "Show each row of an array on its own line"),
        Option(
            "--columns",
            "The columns to show, for example `id,state,tag.lr`",
            default_text=",".join(SHOWN),
            metavar="NAME,…",
            shell_complete=offers("columns"),
        ),
        Option(
            "--sort",
            "The column to sort by",
            default_text="newest first; rows of a group by number",
            metavar="NAME",
            shell_complete=offers("sort fields"),
        ),
        Flag("--reverse", "Reverse the order"),
        Option(
            "--last --max last",
            "Only the N newest",
            default_text=most,
            type=click.IntRange(min=1),
            metavar="N",
        ),
        Flag("--all", "Show all runs"),
        Flag("-w --watch", "Show the table as it changes, until Ctrl-C"),
        Flag("--everywhere", "Look in the stores for runs of other machines first"),
        Option("--export", "Write to a file instead: .csv, .tsv or .json", metavar="FILE"),
        json_option(f"Print a JSON array; `logs` are looked up for at most {_LOOKED_UP} runs"),
    ]


command = Command(
    "runs",
    run,
    parameters(f"{_USUAL}; all with `--export`"),
    help="List runs, newest first. A group of runs from an array is one line unless `--rows` is given.",
)
