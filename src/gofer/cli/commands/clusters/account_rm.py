"""`gofer account rm`: a profile of Azure logins, removed."""

from __future__ import annotations

import os
from typing import Any

import click

from gofer.cli.completion import profiles
from gofer.cli.options import Command, json_option, quiet_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.ops.accounts.azure_account import sign_out
from gofer.ops.accounts.azure_profiles import Profiles
from gofer.transport.azure.profile import DEFAULT


def run(**given: Any) -> int:
    """Its login and the tokens kept of it go too."""
    environ = dict(os.environ)
    was = sign_out(environ, given["name"]) if given["name"] != DEFAULT else {}
    Profiles.of(environ).remove(given["name"])
    if given["as_json"]:
        print_json({**was, "removed": True})
    if not given["quiet"]:
        print_message(f"removed the profile `{given['name']}`")
    return 0


command = Command(
    "rm",
    run,
    [click.Argument(["name"], metavar="NAME", shell_complete=profiles), quiet_option(), json_option()],
    help="Remove a profile of Azure logins: sign out of it and forget it. `default` stays.",
)
