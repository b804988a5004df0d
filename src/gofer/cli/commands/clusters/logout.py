"""`gofer logout`: close the connections of `gofer login`, or sign out of Azure."""

from __future__ import annotations

import os
from typing import TypedDict, Unpack

from gofer.cli.commands.clusters.login import (
    host_option,
    is_of_machines,
    named_target,
    profile_option,
    target_argument,
)
from gofer.cli.commands.clusters.machine_login import log_out_machines
from gofer.cli.options import Command, json_option, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.ops.accounts.azure_account import profile_of, sign_out
from gofer.ops.session import Session


class _Options(TypedDict):
    name: str | None
    host: str | None
    profile: str | None
    target: str | None
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """Nothing on stdout but JSON when asked for."""
    target = named_target(given["name"], given["target"])
    with Session() as session:
        of_azure = "--profile" if given["profile"] else None
        if is_of_machines(session, target, given["host"], of_azure):
            return log_out_machines(session, target, given["host"], as_json=given["as_json"])
        profile = given["profile"] or (profile_of(session, target) if target else None)
    facts = sign_out(dict(os.environ), profile)
    if given["as_json"]:
        print_json(facts)
    elif facts["signed_out"]:
        who = f", {facts['user']}" if facts["user"] else ""
        print_message(f"signed out of the profile `{facts['profile']}`{who}")
    else:
        print_message(f"not signed in to the profile `{facts['profile']}`")
    return 0


command = Command(
    "logout",
    run,
    [
        target_argument(),
        host_option("Close the connection to this host for ssh, which no target has"),
        profile_option("Sign out of this profile", default_text="the profile in use"),
        target_option("The same as TARGET"),
        json_option(),
    ],
    help="Log out. With a TARGET over SSH, close the connections that `gofer login` opened, and end the "
    "commands that use them; runs continue. Else sign out of Azure: drop the login of the Azure command line "
    "in the profile, and every token that gofer kept of it.",
)
