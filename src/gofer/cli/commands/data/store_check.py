"""`gofer store check`: whether stores can be listed, written, read and deleted from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from gofer.cli.options import Command, Flag, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import has_colours, print_message
from gofer.cli.output.table import Column, render, screen_width
from gofer.ops.data.store_check import check_store
from gofer.ops.data.store_facts import store_names
from gofer.ops.session import Session

if TYPE_CHECKING:
    from gofer.model.checks import Check

# Upper case, so that a failure is visible without colours too.
_WORDS = {"fail": "FAIL"}
_COLUMNS = [Column("STORE"), Column("CHECK"), Column("", coloured=True), Column("DETAIL")]


def run(**given: Any) -> int:
    """A line for each check, or JSON; 1 when any failed."""
    with Session() as session:
        names = given["names"] or store_names(session)
        found = [
            (name, check) for name in names for check in check_store(session, name, create=given["create"])
        ]
    if given["as_json"]:
        print_json([{"store": name, **check._asdict(), "ok": check.ok} for name, check in found])
    else:
        _print(found)
    return 0 if all(check.ok for _, check in found) else 1


def _print(found: list[tuple[str, Check]]) -> None:
    cells = [[name, one.name, _WORDS.get(one.status, one.status), one.detail] for name, one in found]
    sys.stdout.write(render(_COLUMNS, cells, fit=screen_width(), colour=has_colours(sys.stdout)))
    told: set[str] = set()
    for name, one in found:
        if one.status != "ok" and one.hint and one.hint not in told:
            told.add(one.hint)
            print_message(f"hint: {name}: {one.hint}")


command = Command(
    "check",
    run,
    [
        click.Argument(["names"], nargs=-1, metavar="[NAME…]"),
        Flag("--create", "Make the container or bucket when it is missing"),
        json_option(),
    ],
    help="Check stores, all unless named: list, write, read and delete a small object, and say what is wrong "
    "where one of these fails. The exit status is 1 when a check fails.",
)
