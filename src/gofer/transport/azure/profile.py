"""The profile of Azure logins that an environment selects: its name, the folder of `az`, the login command.

The environment is a parameter, not os.environ, so that a process can use several profiles at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

DEFAULT = "default"
VARIABLE = "GOFER_AZURE_PROFILE"
FOLDER_VARIABLE = "AZURE_CONFIG_DIR"
TENANT_VARIABLE = "AZURE_TENANT_ID"
# `az` reads this variable before the choice of `az cloud set`.
CLOUD_VARIABLE = "AZURE_CLOUD_NAME"


def folder_of(environ: Mapping[str, str]) -> str:
    """The folder in which `az` keeps the profile."""
    home = environ.get("HOME") or os.path.expanduser("~")
    return environ.get(FOLDER_VARIABLE) or os.path.join(home, ".azure")


def name_of(environ: Mapping[str, str]) -> str:
    """The name of the profile in gofer."""
    return environ.get(VARIABLE) or DEFAULT


def in_profile(name: str) -> str:
    """The profile for the middle of a sentence; empty for `default`, the only one that most people have."""
    return "" if name == DEFAULT else f" of the profile `{name}`"


def login_command(name: str, more: str = "") -> str:
    """The command, in backticks, that signs in to the profile; `more` are further options."""
    words = ["gofer login", "" if name == DEFAULT else f"--profile {name}", more]
    return f"`{' '.join(word for word in words if word)}`"


def show_command(name: str) -> str:
    """The command, in backticks, that shows who is signed in to the profile."""
    return "`gofer account show`" if name == DEFAULT else f"`gofer account show {name}`"


def differing(environ: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """The variables that a program started with `around` also needs, to use the profile of `environ`."""
    names = (FOLDER_VARIABLE, TENANT_VARIABLE, CLOUD_VARIABLE, VARIABLE)
    return {name: environ[name] for name in names if environ.get(name) and environ[name] != base.get(name)}
