"""`gofer secret rm`: forget secrets."""

from __future__ import annotations

import os
from typing import Any

import click

from gofer.cli.options import Command
from gofer.config.paths import Paths
from gofer.config.secrets import Secrets


def run(**given: Any) -> int:
    """Remove each; the first name that is not there ends it with an error."""
    secrets = Secrets(Paths.from_environment(os.environ).secrets_file)
    for name in given["names"]:
        secrets.remove(name)
    return 0


command = Command(
    "rm",
    run,
    [click.Argument(["names"], nargs=-1, required=True, metavar="NAME…")],
    help="Forget secrets. What used them fails until they are set again.",
)
