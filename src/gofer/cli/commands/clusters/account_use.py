"""`gofer account use`: the profile of Azure logins that commands work with."""

from __future__ import annotations

import os
from typing import Any

import click

from gofer.cli.completion import profiles
from gofer.cli.options import Command, json_option, quiet_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.ops.accounts.azure_account import account_facts
from gofer.ops.accounts.azure_profiles import Profiles


def run(**given: Any) -> int:
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


command = Command(
    "use",
    run,
    [click.Argument(["name"], metavar="NAME", shell_complete=profiles), quiet_option(), json_option()],
    help="Choose the profile of Azure logins that your commands work with. `GOFER_AZURE_PROFILE` goes first, "
    "then the `profile:` of a target or a store.",
)
