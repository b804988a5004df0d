"""What a working copy held before the command began: enough to keep the command's files without its agent.

The agent writes the record when the command begins. When the agent is killed, the supervisor has another
process keep the files by the record. The supervisor removes the record when nobody needs it any more.
"""

from __future__ import annotations

import os
from typing import Any, Dict, NamedTuple, Optional, Tuple

from gofer.core import files, private_folder
from gofer.core.json_text import parse_json
from gofer.node.working_copy import Contents

_FOLDER = "copies"


class CopyRecord(NamedTuple):
    """The copy at `code` held `before`, and `restored` of it are files of earlier attempts.

    `counted`, `copies` and the file `tally` are what gofer.node.kept.limit has.
    """

    code: str
    before: Contents
    restored: Contents
    counted: int
    copies: Tuple[str, ...]
    tally: Optional[str]


def path_of(engine: str, run_id: str, attempt: int, node: int) -> str:
    return os.path.join(engine, _FOLDER, f"{run_id}.{attempt}.{node}.json")


def write(path: str, record: CopyRecord) -> None:
    """OSError when it cannot be written; the run goes on without it."""
    private_folder.make_missing(os.path.dirname(path))
    files.write_whole(path, files.encode(record._asdict()), mode=0o600)


def read(path: str) -> Optional[CopyRecord]:
    """None when there is none, or none that can be read."""
    try:
        with open(path, "rb") as file:
            found: Dict[str, Any] = parse_json(file.read())
        for name in ("before", "restored"):
            found[name] = {path: tuple(stamp) for path, stamp in found[name].items()}
        return CopyRecord(**{**found, "copies": tuple(found["copies"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
