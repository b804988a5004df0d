"""`gofer account`: the profiles of Azure logins, listed, shown, chosen and removed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TypedDict, Unpack

import click

from gofer.cli.options import Command, json_option, offers, quiet_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, render_facts, screen_width
from gofer.errors import GoferError
from gofer.ops.accounts.azure_account import AccountFacts, StoredToken, account_facts, sign_out, users_of
from gofer.ops.accounts.azure_profiles import Profiles
from gofer.ops.session import Session
from gofer.text import format_duration
from gofer.transport.azure.credential import has_environment_identity
from gofer.transport.azure.profile import DEFAULT, login_command

_TITLES = ("PROFILE", "IN USE", "USER", "TENANT", "SUBSCRIPTION", "TARGETS")


class _ListedAccount(AccountFacts):
    """With the targets that use it."""

    targets: list[str]


class _ListAccountsOptions(TypedDict):
    as_json: bool


def list_accounts(**given: Unpack[_ListAccountsOptions]) -> int:
    """A table, or JSON; `default` is always there."""
    environ = dict(os.environ)
    known, users = Profiles.of(environ).names(), _users()
    rows: list[_ListedAccount] = [
        {**account_facts(environ, name), "targets": users.pop(name, [])} for name in known
    ]
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


def _cells(row: _ListedAccount) -> list[str]:
    mark = "*" if row["is_active"] else ""
    targets = ", ".join(row["targets"]) or "-"
    return [row["profile"], mark, _user(row), row["tenant"] or "-", _chosen(row), targets]


def _user(row: AccountFacts) -> str:
    return str(row["user"] or ("by device code" if row["device_login"] else "-"))


def _chosen(row: AccountFacts) -> str:
    return next((str(one["name"]) for one in row["subscriptions"] if one["is_default"]), "-")


list_command = Command(
    "list",
    list_accounts,
    [json_option()],
    help="List the profiles of Azure logins, who is signed in to each by the Azure command line, and which "
    "targets of the kind `azureml` work with it.",
)


class _ShowAccountOptions(TypedDict):
    name: str | None
    as_json: bool


def show_account(**given: Unpack[_ShowAccountOptions]) -> int:
    """Facts, or JSON; never a token."""
    print_facts(account_facts(dict(os.environ), given["name"]), as_json=given["as_json"])
    return 0


def print_facts(facts: AccountFacts, *, as_json: bool) -> None:
    """The facts of one profile on stdout."""
    if as_json:
        print_json(facts)
        return
    lines = [
        ("profile", facts["profile"] + (f" (in use, by {facts['chosen_by']})" if facts["is_active"] else "")),
        ("folder", facts["folder"]),
        ("user", facts["user"] or ("by device code" if facts["device_login"] else "not signed in")),
        ("tenant", facts["tenant"] or "-"),
        ("cloud", facts["cloud"] or "as `ARM_CLOUD_METADATA_URL` describes it"),
        ("subscriptions", "\n".join(_subscription(one) for one in facts["subscriptions"]) or "-"),
        ("tokens", "\n".join(_token(one) for one in facts["tokens"]) or "none kept"),
    ]
    if facts["environment"]:
        lines.append(("overridden by", f"{facts['environment']}, from the environment"))
    sys.stdout.write(render_facts(lines))


def _subscription(one: dict[str, str | bool]) -> str:
    return f"{one['id']}  {one['name']}{' (default)' if one['is_default'] else ''}"


def _token(one: StoredToken) -> str:
    return f"{one['scope']}: expires in {format_duration(one['left_s'])}"


show_command = Command(
    "show",
    show_account,
    [
        click.Argument(["name"], required=False, metavar="[NAME]", shell_complete=offers("profiles")),
        json_option(),
    ],
    help="Show one profile, the profile in use unless named: its user, tenant and subscriptions, and "
    "how long the tokens that gofer keeps are valid. The tokens are never shown.",
)


class _UseAccountOptions(TypedDict):
    name: str
    quiet: bool
    as_json: bool


def use_account(**given: Unpack[_UseAccountOptions]) -> int:
    """Chosen for all commands of this user from now on; with `--json`, the facts of the profile."""
    found = Profiles.of(os.environ)
    found.use(given["name"])
    active, origin = found.chosen()
    if given["as_json"]:
        print_json(account_facts(dict(os.environ), given["name"]))
    if active != given["name"] and not given["quiet"]:
        print_message(f"warning: `{active}` remains in use: {origin} takes precedence")
    elif not given["quiet"]:
        print_message(f"`{active}` is in use")
    return 0


use_command = Command(
    "use",
    use_account,
    [
        click.Argument(["name"], metavar="NAME", shell_complete=offers("profiles")),
        quiet_option(),
        json_option(),
    ],
    help="Choose the profile of Azure logins that your commands work with. `GOFER_AZURE_PROFILE` goes first, "
    "then the `profile:` of a target or a store.",
)


class _RemoveAccountOptions(TypedDict):
    name: str
    quiet: bool
    as_json: bool


def remove_account(**given: Unpack[_RemoveAccountOptions]) -> int:
    """Its login and the tokens kept of it go too."""
    environ = dict(os.environ)
    was: Mapping[str, object] = sign_out(environ, given["name"]) if given["name"] != DEFAULT else {}
    Profiles.of(environ).remove(given["name"])
    if given["as_json"]:
        print_json({**was, "removed": True})
    if not given["quiet"]:
        print_message(f"removed the profile `{given['name']}`")
    return 0


rm_command = Command(
    "rm",
    remove_account,
    [
        click.Argument(["name"], metavar="NAME", shell_complete=offers("profiles")),
        quiet_option(),
        json_option(),
    ],
    help="Remove a profile of Azure logins: sign out of it and forget it. `default` stays.",
)
