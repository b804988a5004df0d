"""Files that reach a run as secrets: sent with its private values, written into the working copy with mode
0600.
"""

from __future__ import annotations

import base64
import os
from typing import Mapping

from gofer.core import files


def encode(contents: Mapping[str, bytes]) -> dict[str, str]:
    """Path → contents, as `gofer.core.secrets.run_secrets.RunSecrets` keeps them."""
    return {path: base64.b64encode(data).decode("ascii") for path, data in contents.items()}


def write(code: str, sealed: Mapping[str, str]) -> None:
    """Write the files into the folder `code`. Idempotent; ValueError for a path that leads out of the
    folder.
    """
    for path, text in sealed.items():
        target = os.path.normpath(os.path.join(code, path))
        if not target.startswith(code.rstrip("/") + "/"):
            raise ValueError(f"the private file `{path}` would be outside the code folder")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        files.write_whole(target, base64.b64decode(text), mode=0o600)
