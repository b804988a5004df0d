"""`gofer login`: sign in to Azure, in the person's own profile or one beside it."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from gofer.cli.commands.clusters.account import print_facts
from gofer.cli.options import Command, Flag, Option, json_option, offers, target_option
from gofer.cli.output.screen import print_message
from gofer.config.redact import remember
from gofer.errors import UsageError
from gofer.ops.accounts.azure_account import LoginRequest, profile_of, sign_in
from gofer.ops.session import Session
from gofer.transport.azure.cloud import NAMES


def run(**given: Any) -> int:
    """Who is signed in, as facts or JSON."""
    profile = given["profile"] or profile_of_target(given["target"])
    client, secret = _principal() if given["service_principal"] else (None, None)
    request = LoginRequest(profile, given["device_code"], given["tenant"], client, secret, given["cloud"])
    facts = sign_in(dict(os.environ), request, print_message)
    print_facts(facts, as_json=given["as_json"])
    return 0


def profile_of_target(target: str | None) -> str | None:
    """The profile that a target works with; None where none was named."""
    if target is None:
        return None
    with Session() as session:
        return profile_of(session, target)


def _principal() -> tuple[str, str]:
    """The application's id and its secret, which is never taken from the command line."""
    client = os.environ.get("AZURE_CLIENT_ID")
    if not client:
        raise UsageError(
            "`--service-principal` needs the application's id",
            hint="set `AZURE_CLIENT_ID`; set `AZURE_CLIENT_SECRET` too, or type the secret at the prompt",
        )
    secret = os.environ.get("AZURE_CLIENT_SECRET")
    if not secret:
        if sys.stdin.isatty():
            secret = str(click.prompt(f"secret of {client}", hide_input=True, err=True))
        else:
            secret = sys.stdin.read().removesuffix("\n")
    remember(secret)
    return client, secret


def profile_option(help: str, *, default_text: str) -> Option:
    """`--profile NAME`; a shell completes it by the names of the profiles."""
    return Option(
        "--profile", help, default_text=default_text, metavar="NAME", shell_complete=offers("profiles")
    )


command = Command(
    "login",
    run,
    [
        profile_option(
            "Sign in to this profile; a new name makes a profile", default_text="the profile in use"
        ),
        target_option("Sign in to the profile that this target works with"),
        Flag("--device-code", "Sign in with a code that you type in a browser"),
        Option(
            "--tenant",
            "The tenant to sign in to: its id or its domain",
            default_text="the account's own",
            metavar="T",
        ),
        Option(
            "--cloud",
            "The cloud to sign in to, remembered with the profile",
            default_text="the cloud of the profile, else azure",
            type=click.Choice(NAMES),
        ),
        Flag(
            "--service-principal",
            "As the application AZURE_CLIENT_ID; its secret is AZURE_CLIENT_SECRET, asked for, or on stdin",
        ),
        json_option(),
    ],
    help="Sign in to Azure. Where the Azure command line (`az`) is installed, this is `az login` in the "
    "profile; elsewhere you type a code in a browser. A profile is a separate login; the profile "
    "`default` is the login of `az` itself. `gofer account use` chooses the profile of your commands, "
    "and `profile:` of a target or a store overrides it.",
)
