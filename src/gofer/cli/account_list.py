"""`gofer account list`: the profiles of Azure logins."""

from __future__ import annotations

import os
import sys
from typing import Any

from gofer.cli.options import Command, json_option
from gofer.cli.table import Column, render, screen_width

_COLUMNS = [Column("PROFILE"), Column("IN USE"), Column("USER"), Column("TENANT"), Column("SUBSCRIPTION")]


def run(**given: Any) -> int:
    """A table, or JSON; `default` is always there."""
    from gofer.ops.azure_account import account_facts
    from gofer.ops.azure_profiles import Profiles

    environ = dict(os.environ)
    rows = [account_facts(environ, name) for name in Profiles.of(environ).names()]
    if given["as_json"]:
        from gofer.cli.json_output import print_json

        print_json(rows)
        return 0
    cells = [
        [row["profile"], "*" if row["is_active"] else "", _user(row), row["tenant"] or "-", _chosen(row)]
        for row in rows
    ]
    sys.stdout.write(render(_COLUMNS, cells, fit=screen_width()))
    return 0


def _user(row: dict[str, Any]) -> str:
    return str(row["user"] or ("by device code" if row["device_login"] else "-"))


def _chosen(row: dict[str, Any]) -> str:
    return next((str(one["name"]) for one in row["subscriptions"] if one["is_default"]), "-")


command = Command(
    "list",
    run,
    [json_option()],
    help="List the profiles of Azure logins, and who is signed in to each by the Azure command line.",
)
