"""`gofer store`: the stores of code, logs and data, listed, shown and checked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from gofer.cli.options import Command, Flag, json_option, offers
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, render_facts, screen_width
from gofer.cli.output.theme import has_colours
from gofer.ops.data.store_check import check_store, store_facts, store_names, store_rows
from gofer.ops.session import Session

if TYPE_CHECKING:
    from gofer.model.checks import Check


_COLUMNS = [Column("NAME"), Column("URL", flexible=True), Column("OPENED BY"), Column("FROM", flexible=True)]
# Upper case, so that a failure is visible without colours too.
_WORDS = {"fail": "FAIL"}
_CHECK_COLUMNS = [Column("STORE"), Column("CHECK"), Column("", coloured=True), Column("DETAIL")]


class _ListStoresOptions(TypedDict):
    as_json: bool


def list_stores(**given: Unpack[_ListStoresOptions]) -> int:
    """A line, or a JSON object, for every store."""
    with Session() as session:
        rows = store_rows(session)
    if given["as_json"]:
        print_json(rows)
        return 0
    cells = [[one["name"], one["url"], one["opened_by"], one["origin"]] for one in rows]
    sys.stdout.write(render(_COLUMNS, cells, fit=screen_width(), colour=has_colours(sys.stdout)))
    return 0


list_command = Command(
    "list",
    list_stores,
    [json_option()],
    help="List the stores: the address of each, and the kind of its credential. Asks no service.",
)


class _ShowStoreOptions(TypedDict):
    name: str
    as_json: bool


def show_store(**given: Unpack[_ShowStoreOptions]) -> int:
    """Facts, or JSON; the default store when none is named."""
    with Session() as session:
        facts = store_facts(session, given["name"])
    if given["as_json"]:
        print_json(facts)
    else:
        lines = [(key.replace("_", " "), str(value)) for key, value in facts.items() if value is not None]
        sys.stdout.write(render_facts(lines))
    return 0


show_command = Command(
    "show",
    show_store,
    [
        click.Argument(
            ["name"], required=False, default="default", metavar="[NAME]", shell_complete=offers("stores")
        ),
        json_option(),
    ],
    help="Show one store: its address, the kind of its credential, and the rights and the end of a SAS. "
    "Secrets are not shown.",
)


class _CheckStoresOptions(TypedDict):
    names: tuple[str, ...]
    create: bool
    as_json: bool


def check_stores(**given: Unpack[_CheckStoresOptions]) -> int:
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
    sys.stdout.write(render(_CHECK_COLUMNS, cells, fit=screen_width(), colour=has_colours(sys.stdout)))
    told: set[str] = set()
    for name, one in found:
        if one.status != "ok" and one.hint and one.hint not in told:
            told.add(one.hint)
            print_message(f"hint: {name}: {one.hint}")


check_command = Command(
    "check",
    check_stores,
    [
        click.Argument(["names"], nargs=-1, metavar="[NAME…]", shell_complete=offers("stores")),
        Flag("--create", "Make the container or bucket when it is missing"),
        json_option(),
    ],
    help="Check stores, all unless named: list, write, read and delete a small object, and say what is wrong "
    "where one of these fails. The exit status is 1 when a check fails.",
)
