"""`gofer account show`: one profile of Azure logins."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from gofer.cli.completion import profiles
from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.table import render_facts
from gofer.ops.accounts.azure_account import account_facts
from gofer.text import format_duration


def run(**given: Any) -> int:
    """Facts, or JSON; never a token."""
    print_facts(account_facts(dict(os.environ), given["name"]), as_json=given["as_json"])
    return 0


def print_facts(facts: dict[str, Any], *, as_json: bool) -> None:
    """The facts of one profile on stdout."""
    if as_json:
        print_json(facts)
        return
    lines = [
        ("profile", facts["profile"] + (f" (in use, by {facts['chosen_by']})" if facts["is_active"] else "")),
        ("folder", facts["folder"]),
        ("user", facts["user"] or ("by device code" if facts["device_login"] else "nobody is signed in")),
        ("tenant", facts["tenant"] or "-"),
        ("cloud", facts["cloud"] or "as `ARM_CLOUD_METADATA_URL` describes it"),
        ("subscriptions", "\n".join(_subscription(one) for one in facts["subscriptions"]) or "-"),
        ("tokens", "\n".join(_token(one) for one in facts["tokens"]) or "none kept"),
    ]
    if facts["environment"]:
        lines.append(("goes first", f"{facts['environment']}, by the environment"))
    sys.stdout.write(render_facts(lines))


def _subscription(one: dict[str, Any]) -> str:
    return f"{one['id']}  {one['name']}{' (default)' if one['is_default'] else ''}"


def _token(one: dict[str, Any]) -> str:
    return f"{one['scope']}: {format_duration(one['left_s'])} left"


command = Command(
    "show",
    run,
    [click.Argument(["name"], required=False, metavar="[NAME]", shell_complete=profiles), json_option()],
    help="Show one profile, the profile in use unless named: its user, tenant and subscriptions, and "
    "how long the tokens that gofer keeps are valid. The tokens are never shown.",
)
