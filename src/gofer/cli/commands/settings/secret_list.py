"""`gofer secret list`: the names, never the values."""

from __future__ import annotations

import os
import sys
from typing import Any

from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.config.paths import Paths
from gofer.config.secrets import Secrets


def run(**given: Any) -> int:
    """One name a line, or JSON."""
    names = Secrets(Paths.from_environment(os.environ).secrets_file).names()
    if given["as_json"]:
        print_json(names)
    else:
        sys.stdout.write("".join(name + "\n" for name in names))
    return 0


command = Command("list", run, [json_option()], help="List the names of the secrets. Values are never shown.")
