"""A record of a working copy before the command began. With it, the command's files can be kept without the
agent.

The agent writes the record when the command begins. When the agent is killed, the supervisor starts another
process, which keeps the files with the help of the record. The supervisor removes the record when the run has
ended.
"""

from __future__ import annotations

import os
from typing import Dict, NamedTuple, Optional, Tuple

from gofer.core import files, private_folder
from gofer.core.json_text import parse_json
from gofer.node.code.working_copy import Contents

_FOLDER = "copies"
# The shared records that this process has written.
_shared: Dict[str, bytes] = {}


class CopyRecord(NamedTuple):
    """The contents `before` of the copy at `code`, of which `restored` are files of earlier attempts.

    `counted`, `copies` and the file `tally` are as in gofer.node.kept.limit.
    """

    code: str
    before: Contents
    restored: Contents
    counted: int
    copies: Tuple[str, ...]
    tally: Optional[str]


def path_of(queue_home: str, run_id: str, attempt: int, node: int) -> str:
    return os.path.join(queue_home, _FOLDER, f"{run_id}.{attempt}.{node}.json")


def write(path: str, record: CopyRecord, contents: Optional[str] = None) -> None:
    """Write the record. OSError when it cannot be written; the run continues without it.

    `contents` is a file from `write_contents` that already holds `before`. The rows of an array mostly have
    equal records: then one file beside the contents gets many names.
    """
    private_folder.make_missing(os.path.dirname(path))
    written: Dict[str, object] = record._asdict()
    if contents is None:
        files.write_whole(path, files.encode(written), mode=0o600)
        return
    data = files.encode({**written, "before": contents})
    shared = contents + ".record"
    try:
        if _shared.get(shared) != data:
            files.write_whole(shared, data, mode=0o600)
            _shared[shared] = data
        os.link(shared, path)
    except OSError:  # the record of an earlier agent is there, or the copy is on another disk
        files.write_whole(path, data, mode=0o600)


def write_contents(path: str, contents: Contents) -> None:
    """Write the contents of a copy to a file that several records may name. OSError when that fails."""
    files.write_whole(path, files.encode(contents), mode=0o600)


def read(path: str) -> Optional[CopyRecord]:
    """The record; None when there is none that can be read."""
    try:
        with open(path, "rb") as file:
            found = parse_json(file.read())
        if isinstance(found["before"], str):
            with open(found["before"], "rb") as file:
                found["before"] = parse_json(file.read())
        for name in ("before", "restored"):
            found[name] = {path: tuple(stamp) for path, stamp in found[name].items()}
        return CopyRecord(**{**found, "copies": tuple(found["copies"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
