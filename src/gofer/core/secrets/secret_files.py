"""Files that go to a run as secrets: with its private values, and into the copy of its code with 0600."""

from __future__ import annotations

import base64
import os
from typing import Mapping

from gofer.core import files


def encode(contents: Mapping[str, bytes]) -> dict[str, str]:
    """Path → contents, as `gofer.core.secrets.run_secrets.Private` keeps them."""
    return {path: base64.b64encode(data).decode("ascii") for path, data in contents.items()}


def write(code: str, sealed: Mapping[str, str]) -> None:
    """Put the files into the folder `code`. Idempotent; ValueError for a path that leads out of it."""
    for path, text in sealed.items():
        whole = os.path.normpath(os.path.join(code, path))
        if not whole.startswith(code.rstrip("/") + "/"):
            raise ValueError(f"the private file `{path}` would lie outside of the code")
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        files.write_whole(whole, base64.b64decode(text), mode=0o600)
