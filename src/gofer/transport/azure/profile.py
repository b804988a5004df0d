"""The profile of logins that an environment means: its name, the folder of `az`, and what signs in to it.

An environment is a mapping that is handed on, so that one process may work with several at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

DEFAULT = "default"
VARIABLE = "GOFER_AZURE_PROFILE"
FOLDER_VARIABLE = "AZURE_CONFIG_DIR"
TENANT_VARIABLE = "AZURE_TENANT_ID"
# By which `az` is told its cloud, before what `az cloud set` chose.
CLOUD_VARIABLE = "AZURE_CLOUD_NAME"


def folder_of(environ: Mapping[str, str]) -> str:
    """The folder that `az` works in."""
    home = environ.get("HOME") or os.path.expanduser("~")
    return environ.get(FOLDER_VARIABLE) or os.path.join(home, ".azure")


def name_of(environ: Mapping[str, str]) -> str:
    """As gofer calls it."""
    return environ.get(VARIABLE) or DEFAULT


def in_profile(name: str) -> str:
    """For the midst of a sentence: nothing of `default`, which most people have alone."""
    return "" if name == DEFAULT else f" of the profile `{name}`"


def login_command(name: str, more: str = "") -> str:
    """What signs in to the profile, with its backticks; `more` are further options."""
    words = ["gofer login", "" if name == DEFAULT else f"--profile {name}", more]
    return f"`{' '.join(word for word in words if word)}`"


def show_command(name: str) -> str:
    """What shows who is signed in to the profile, with its backticks."""
    return "`gofer account show`" if name == DEFAULT else f"`gofer account show {name}`"


def differing(environ: Mapping[str, str], around: Mapping[str, str]) -> dict[str, str]:
    """What a program that starts with `around` must be told to work with the profile of `environ`."""
    names = (FOLDER_VARIABLE, TENANT_VARIABLE, CLOUD_VARIABLE, VARIABLE)
    return {name: environ[name] for name in names if environ.get(name) and environ[name] != around.get(name)}
