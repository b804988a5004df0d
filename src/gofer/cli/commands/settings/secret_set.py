"""`gofer secret set`: store a value that never appears on a command line."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from gofer.cli.options import Command, quiet_option
from gofer.cli.output.screen import print_message
from gofer.config.paths import Paths
from gofer.config.secrets import Secrets
from gofer.errors import UsageError


def run(**given: Any) -> int:
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
        print_message(f"kept; write it as ${{secret:{name}}} in a file of settings")
    return 0


command = Command(
    "set",
    run,
    [
        click.Argument(["name"], metavar="NAME"),
        click.Argument(["value"], nargs=-1, metavar="< FILE"),
        quiet_option(),
    ],
    help="Keep a secret. The value is typed without echo, or read from stdin: "
    "`gofer secret set NAME < FILE`.",
)
