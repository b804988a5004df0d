"""`gofer list runs`: the ledger as a table, JSON or a file."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from gofer.cli.columns import EXPORTED, SHOWN, column, parse_columns, text
from gofer.cli.options import Command, Flag, Option, json_option, target_option
from gofer.cli.screen import colourful, say
from gofer.cli.table import render, screen_width

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow
    from gofer.tracking.query import Query

_USUAL = 20
# For more runs than this, `--json` does not look into the stores for their logs.
_LOOKED_UP = 100


def run(**given: Any) -> int:
    """Print the runs that match; 0 also when there are none."""
    from gofer.cli.freshness import refresh_active
    from gofer.ops.session import Session

    names = parse_columns(given["columns"]) if given["columns"] else None
    with Session(target=given["target"]) as session:
        query = _query(session, given)
        refresh_active(session)
        rows = session.ledger.select(query)
        if given["export"]:
            _export(session, rows, names, given["export"])
        elif given["as_json"]:
            _print_json(session, rows)
        else:
            _print_table(rows, names or SHOWN)
        _say_more(session, query, rows, given)
    return 0


def _query(session: Session, given: dict[str, Any]) -> Query:
    from gofer.tracking.query import Filter, Query, parse_filters

    filters = parse_filters(given["filters"])
    if given["target"]:
        filters += (Filter("target", "=", (given["target"],)),)
    if given["group"]:
        filters += (Filter("group", "=", (session.ledger.resolve(given["group"]).id,)),)
    limit = None if given["all"] else given["last"] or (None if given["export"] else _USUAL)
    return Query(
        filters=filters,
        sort=given["sort"],
        reverse=given["reverse"],
        limit=limit,
        include_rows=given["rows"],
        records=given["as_json"],
    )


def _print_table(rows: list[RunRow], names: tuple[str, ...]) -> None:
    now = time.time()
    columns = [column(name) for name in names]
    cells = [[text(name, row, now) for name in names] for row in rows]
    sys.stdout.write(render(columns, cells, fit=screen_width(), colour=colourful(sys.stdout)))


def _print_json(session: Session, rows: list[RunRow]) -> None:
    from gofer.cli.json_output import print_json
    from gofer.ops.view import run_jsons

    print_json(list(run_jsons(session, rows, from_store=len(rows) <= _LOOKED_UP)))


def _export(session: Session, rows: list[RunRow], names: tuple[str, ...] | None, file: str) -> None:
    from gofer.cli.export import write_runs

    write_runs(rows, names or EXPORTED, file, all_tags=names is None)
    say(f"{len(rows)} runs written to {file}")


def _say_more(session: Session, query: Query, rows: list[RunRow], given: dict[str, Any]) -> None:
    if query.limit is None or len(rows) < query.limit or given["last"]:
        if not rows and not query.filters:
            say("no run yet; `gofer submit COMMAND` makes the first")
        return
    total = session.ledger.count(query)
    if total > len(rows):
        say(f"{len(rows)} of {total} runs; `--all` shows all")


command = Command(
    "runs",
    run,
    [
        target_option("Only the runs on this target"),
        Option(
            "--filter filters",
            "Only the runs where this holds, such as `state=failed`, `gpus>=4`, `age<7d` or "
            "`tag.lr=0.1`; several must all hold",
            multiple=True,
            metavar="FILTER",
        ),
        Option("--group", "Only the rows of this group", metavar="RUN"),
        Flag("--rows", "Show the rows of arrays as lines of their own"),
        Option("--columns", "What to show, such as `id,state,tag.lr`", metavar="NAME,…"),
        Option("--sort", "The column to sort by; newest first without it", metavar="NAME"),
        Flag("--reverse", "Turn the order round"),
        Option(
            "--last",
            f"Only the N newest ({_USUAL} unless told otherwise)",
            type=click.IntRange(min=1),
            metavar="N",
        ),
        Flag("--all", "All of them"),
        Option("--export", "Write to a file instead: .csv, .tsv or .json", metavar="FILE"),
        json_option(f"Print a JSON array; `logs` are looked up for at most {_LOOKED_UP} runs"),
    ],
    help="List runs, newest first. A group of runs from an array is one line unless `--rows` is given.",
)
