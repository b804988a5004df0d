"""`gofer account list`: the profiles of Azure logins."""

from __future__ import annotations

import os
import sys
from typing import Any

from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, screen_width
from gofer.errors import GoferError
from gofer.ops.accounts.azure_account import account_facts, users_of
from gofer.ops.accounts.azure_profiles import Profiles
from gofer.ops.session import Session
from gofer.transport.azure.credential import has_environment_identity
from gofer.transport.azure.profile import login_command

_TITLES = ("PROFILE", "IN USE", "USER", "TENANT", "SUBSCRIPTION", "TARGETS")


def run(**given: Any) -> int:
    """A table, or JSON; `default` is always there."""
    environ = dict(os.environ)
    known, users = Profiles.of(environ).names(), _users()
    rows = [{**account_facts(environ, name), "targets": users.pop(name, [])} for name in known]
    for name, targets in users.items():
        _warn(environ, name, targets)
    if given["as_json"]:
        print_json(rows)
        return 0
    columns = [Column(title) for title in _TITLES]
    sys.stdout.write(render(columns, [_cells(row) for row in rows], fit=screen_width()))
    if rows[0]["environment"]:
        print_message(f"{rows[0]['environment']}, from the environment, takes precedence over all of them")
    return 0


def _users() -> dict[str, list[str]]:
    """The targets of this folder by profile. Warns about settings that cannot be read."""
    try:
        with Session() as session:
            return users_of(session)
    except GoferError as error:
        print_message(f"warning: {error.message}")
        return {}


def _warn(environ: dict[str, str], name: str, targets: list[str]) -> None:
    if has_environment_identity(environ):
        return
    listed = ", ".join(f"`{target}`" for target in targets)
    print_message(
        f"warning: {listed} would use the profile `{name}`, which does not exist: {login_command(name)}"
    )


def _cells(row: dict[str, Any]) -> list[str]:
    mark = "*" if row["is_active"] else ""
    targets = ", ".join(row["targets"]) or "-"
    return [row["profile"], mark, _user(row), row["tenant"] or "-", _chosen(row), targets]


def _user(row: dict[str, Any]) -> str:
    return str(row["user"] or ("by device code" if row["device_login"] else "-"))


def _chosen(row: dict[str, Any]) -> str:
    return next((str(one["name"]) for one in row["subscriptions"] if one["is_default"]), "-")


command = Command(
    "list",
    run,
    [json_option()],
    help="List the profiles of Azure logins, who is signed in to each by the Azure command line, and which "
    "targets of the kind `azureml` work with it.",
)
