"""`gofer logout`: sign out of Azure."""

from __future__ import annotations

import os
from typing import Any

from gofer.cli.commands.clusters.login import profile_of_target, profile_option
from gofer.cli.options import Command, json_option, target_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.ops.accounts.azure_account import sign_out


def run(**given: Any) -> int:
    """Nothing on stdout but JSON when asked for."""
    profile = given["profile"] or profile_of_target(given["target"])
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
        profile_option("Sign out of this profile", default_text="the profile in use"),
        target_option("Sign out of the profile that this target works with"),
        json_option(),
    ],
    help="Sign out of Azure: drop the login of the Azure command line in the profile, and every token "
    "that gofer kept of it.",
)
