"""Other versions of Python that this machine has, for what must work on them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def pythons(*versions: str) -> list[Path]:
    """The interpreters of these versions that this machine has, on its path or under pyenv."""
    roots = [Path(os.environ["PYENV_ROOT"]) / "versions"] if "PYENV_ROOT" in os.environ else []
    found = [path for root in roots for one in versions for path in root.glob(f"{one}.*/bin/python3")]
    named = (shutil.which(f"python{one}") for one in versions)
    return found or [Path(path) for path in named if path is not None and "/shims/" not in path]
