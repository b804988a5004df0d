"""`gofer login`: log in on machines over SSH, or sign in to Azure."""

from __future__ import annotations

import os
import sys
from typing import TypedDict, Unpack

import click

from gofer.cli.commands.clusters.account import print_facts
from gofer.cli.commands.clusters.machine_login import log_in_machines
from gofer.cli.options import Command, Flag, Option, json_option, offers, target_option
from gofer.cli.output.screen import print_message
from gofer.config.redact import remember
from gofer.errors import UsageError
from gofer.ops.accounts.azure_account import LoginRequest, profile_of, sign_in
from gofer.ops.accounts.machine_logins import USUAL_KEEP, is_azure
from gofer.ops.session import Session
from gofer.text import quote_word
from gofer.transport.azure.cloud import NAMES


class _Options(TypedDict):
    name: str | None
    host: str | None
    keep: str | None
    profile: str | None
    target: str | None
    device_code: bool
    tenant: str | None
    cloud: str | None
    service_principal: bool
    as_json: bool


def run(**given: Unpack[_Options]) -> int:
    """Who is signed in, or the open connections, as facts or JSON."""
    target = named_target(given["name"], given["target"])
    with Session() as session:
        of_azure = next((option for option, value in _of_azure(given) if value), None)
        if is_of_machines(session, target, given["host"], of_azure):
            host, keep = given["host"], given["keep"]
            return log_in_machines(session, target, host, keep=keep, as_json=given["as_json"])
        profile = given["profile"] or (profile_of(session, target) if target else None)
    if given["keep"]:
        raise UsageError("`--keep` is for machines over SSH", hint="name one: `gofer login TARGET --keep 8h`")
    client, secret = _principal() if given["service_principal"] else (None, None)
    request = LoginRequest(profile, given["device_code"], given["tenant"], client, secret, given["cloud"])
    facts = sign_in(dict(os.environ), request, print_message)
    print_facts(facts, as_json=given["as_json"])
    return 0


def named_target(first: str | None, second: str | None) -> str | None:
    """The target of `gofer login TARGET`, which may also follow `-t`. UsageError for two of them."""
    if first and second and first != second:
        raise UsageError(
            f"two targets are named, `{first}` and `{second}`", hint=f"`gofer login {quote_word(first)}`"
        )
    return first or second


def _of_azure(given: _Options) -> list[tuple[str, object]]:
    """The options that belong to Azure alone, and what was given."""
    return [
        ("--profile", given["profile"]),
        ("--device-code", given["device_code"]),
        ("--tenant", given["tenant"]),
        ("--cloud", given["cloud"]),
        ("--service-principal", given["service_principal"]),
    ]


def is_of_machines(session: Session, target: str | None, host: str | None, of_azure: str | None) -> bool:
    """Whether the command is about machines over SSH and not about Azure. UsageError where it says both.
    `of_azure` is an option that was given and belongs to Azure.
    """
    if host and target:
        raise UsageError("a target and `--host` are named", hint="`--host` is for a host that no target has")
    if not host and (target is None or is_azure(session, target)):
        return False
    if of_azure:
        raise UsageError(f"`{of_azure}` is for Azure", hint=f"leave it out for {target or host}")
    return True


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


def target_argument() -> click.Argument:
    """`[TARGET]`, the target to log in to or out of."""
    return click.Argument(["name"], required=False, metavar="[TARGET]", shell_complete=offers("targets"))


def host_option(help: str) -> Option:
    """`--host`, for hosts that belong to no target."""
    return Option("--host", help, default_text="the machines of the target", metavar="HOST")


def profile_option(help: str, *, default_text: str) -> Option:
    """`--profile NAME`; a shell completes it by the names of the profiles."""
    return Option(
        "--profile", help, default_text=default_text, metavar="NAME", shell_complete=offers("profiles")
    )


command = Command(
    "login",
    run,
    [
        target_argument(),
        host_option("Log in on this host for ssh, which no target has"),
        Option(
            "--keep",
            "How long the SSH connection stays open after its last use",
            default_text=USUAL_KEEP,
            metavar="DURATION",
        ),
        profile_option(
            "Sign in to this profile; a new name makes a profile", default_text="the profile in use"
        ),
        target_option("The same as TARGET"),
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
    help="Log in, so that later commands need no password and no code.\n\n"
    "With a TARGET over SSH (ssh, slurm), ssh opens a connection on this terminal and asks for what it needs "
    "(a password, a code, a second factor, whether a host key is right), first on the jump hosts on the way. "
    "Later commands of gofer use the connection. `gofer list logins` shows what is open, and `gofer logout "
    "TARGET` closes it.\n\n"
    "With a TARGET of Azure, or without one, sign in to Azure. Where the Azure command line (`az`) is "
    "installed, this is `az login` in the profile; elsewhere you type a code in a browser. A profile is a "
    "separate login; the profile `default` is the login of `az` itself. `gofer account use` chooses the "
    "profile of your commands, and `profile:` of a target or a store overrides it.",
)
