"""A shell beside a run on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import gofer
from gofer.agent import entering
from gofer.errors import CheckFailed
from gofer.model.ids import short_id


def words(run_id: str, command: Sequence[str], *, terminal: bool) -> list[str]:
    """What to run for it; CheckFailed when no process of the run lives here."""
    if entering.find(run_id) is None:
        name = short_id(run_id)
        raise CheckFailed(
            f"no process of {name} lives on this machine",
            hint=f"`gofer why {name}` says where it stands; `gofer logs {name}` shows what it wrote",
        )
    root = os.path.dirname(os.path.dirname(os.path.abspath(gofer.__file__)))
    return entering.program(sys.executable, root, run_id, command, terminal=terminal)
