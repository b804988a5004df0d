"""Which files look like secrets, by their names alone: `.env`, private keys, credentials.

Such a file is never taken by a pattern: it goes into no snapshot, no pack and no outputs. The submitting side
and the node ask the same function.
"""

from __future__ import annotations

import re

# `.env` is a secret, `.env.example` shows others what to write into it.
_TEMPLATES = (".example", ".sample", ".template", ".dist")
_KEYS = (".pem", ".key")
# A module about credentials is code; what it reads (`credentials.json`, `credentials`) is not.
_SOURCES = re.compile(r".*\.(pyi?|ipynb|sh|[jt]sx?|go|rs|java|kt|cc?|cpp|cu|h|hpp|rb|r|jl|md|rst|html)")


def looks_like_secret(path: str) -> bool:
    """Whether the file at `path` looks like a secret. Pure; upper and lower case are the same.

    `path` is a name or a path with `/`, of a file or a link, not of a folder. Only the last name counts, and
    whether the file lies in a folder `.aws`.
    """
    folder, _, name = path.lower().rpartition("/")
    if name.endswith(_TEMPLATES):
        return False
    if name.startswith(".env") or name == ".netrc" or name.endswith(_KEYS):
        return True
    if name.startswith("id_") and "." not in name:
        return True
    if "credentials" in name and not _SOURCES.fullmatch(name):
        return True
    return ".aws" in folder.split("/")
