"""Recognise files that look like secrets by their names: `.env`, private keys, credentials.

No pattern includes such a file: it goes into no snapshot, no pack and no outputs. The submitting side and the
node use the same function.
"""

from __future__ import annotations

import re

# `.env` is a secret; `.env.example` only shows what to write into `.env`.
_TEMPLATES = (".example", ".sample", ".template", ".dist")
_KEYS = (".pem", ".key")
# A source file about credentials is code; the files it reads (`credentials.json`, `credentials`) are secrets.
_SOURCES = re.compile(r".*\.(pyi?|ipynb|sh|[jt]sx?|go|rs|java|kt|cc?|cpp|cu|h|hpp|rb|r|jl|md|rst|html)")


def looks_like_secret(path: str) -> bool:
    """Whether the file at `path` looks like a secret. Pure; case does not matter.

    `path` is the name or path, with `/`, of a file or a link, not of a folder. Only the last name counts, and
    whether the file is in a folder `.aws`.
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
