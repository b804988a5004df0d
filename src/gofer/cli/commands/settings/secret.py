"""`gofer secret`: values kept out of files and records, set, listed by name and removed."""

from __future__ import annotations

import os
import sys
from typing import TypedDict, Unpack

import click

from gofer.cli.options import Command, json_option, offers, quiet_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.config.paths import Paths
from gofer.config.secrets import Secrets
from gofer.errors import UsageError


class _SetSecretOptions(TypedDict):
    name: str
    value: tuple[str, ...]
    quiet: bool


def set_secret(**given: Unpack[_SetSecretOptions]) -> int:
    """Store the value that is typed without echo, or all of stdin without one newline at its end."""
    name, equals, _ = given["name"].partition("=")
    if equals or given["value"]:
        # The error does not repeat the words, since they may be a secret.
        raise UsageError(
            "the value of a secret cannot be given on the command line, where others can see it",
            hint=f"`gofer secret set {name}` asks for it; `gofer secret set {name} < FILE` reads it",
        )
    if sys.stdin.isatty():
        value = click.prompt(f"value of {name}", hide_input=True, err=True)
    else:
        value = sys.stdin.read().removesuffix("\n")
    Secrets(Paths.from_environment(os.environ).secrets_file).set(name, value)
    if not given["quiet"]:
        print_message(f"saved; use it as ${{secret:{name}}} in gofer.yaml")
    return 0


set_command = Command(
    "set",
    set_secret,
    [
        click.Argument(["name"], metavar="NAME", shell_complete=offers("secrets")),
        click.Argument(["value"], nargs=-1, metavar="< FILE"),
        quiet_option(),
    ],
    help="Save a secret. The value is typed without echo, or read from stdin: "
    "`gofer secret set NAME < FILE`.",
)


class _ListSecretsOptions(TypedDict):
    as_json: bool


def list_secrets(**given: Unpack[_ListSecretsOptions]) -> int:
    """One name a line, or JSON."""
    names = Secrets(Paths.from_environment(os.environ).secrets_file).names()
    if given["as_json"]:
        print_json(names)
    else:
        sys.stdout.write("".join(name + "\n" for name in names))
    return 0


list_command = Command(
    "list", list_secrets, [json_option()], help="List the names of the secrets. Values are never shown."
)


class _RemoveSecretOptions(TypedDict):
    names: tuple[str, ...]


def remove_secret(**given: Unpack[_RemoveSecretOptions]) -> int:
    """Remove each; the first name that is not there ends it with an error."""
    secrets = Secrets(Paths.from_environment(os.environ).secrets_file)
    for name in given["names"]:
        secrets.remove(name)
    return 0


rm_command = Command(
    "rm",
    remove_secret,
    [click.Argument(["names"], nargs=-1, required=True, metavar="NAME…", shell_complete=offers("secrets"))],
    help="Forget secrets. What used them fails until they are set again.",
)
