"""Other versions of Python that this machine has, for what must work on them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# `scripts/test-services.sh` installs versions here that the machine does not have.
INSTALLED = Path(__file__).resolve().parent.parent / ".test-services" / "pythons"


def pythons(*versions: str) -> list[Path]:
    """The interpreters of these versions, at least one: under pyenv, in `.test-services`, or on the path.

    AssertionError where there is none.
    """
    roots = [Path(os.environ["PYENV_ROOT"]) / "versions"] if "PYENV_ROOT" in os.environ else []
    under = [path for root in roots for one in versions for path in root.glob(f"{one}.*/bin/python3")]
    under += [path for one in versions for path in INSTALLED.glob(f"cpython-{one}.*/bin/python3")]
    named = (shutil.which(f"python{one}") for one in versions)
    found = under or [Path(path) for path in named if path is not None and "/shims/" not in path]
    assert found, (
        f"this machine has no Python {' or '.join(versions)}: `bash scripts/test-services.sh` downloads one, "
        "and `python3.8` on the path or a folder PYENV_ROOT/versions/3.8.* is found too"
    )
    return found
