"""Private values of a run, kept beside the queue until the run ends: mode 0600, never in a record or a
log.
"""

from __future__ import annotations

import json
import os
from typing import Mapping

from gofer.agent import files


def _path(engine: str, request_id: str) -> str:
    return os.path.join(engine, "sealed", f"{request_id}.json")


def write(engine: str, request_id: str, values: Mapping[str, str]) -> None:
    os.makedirs(os.path.join(engine, "sealed"), mode=0o700, exist_ok=True)
    files.write_whole(_path(engine, request_id), files.encode(dict(values)), mode=0o600)


def read(engine: str, request_id: str) -> dict[str, str]:
    """Empty when nothing was sealed."""
    try:
        with open(_path(engine, request_id), "rb") as file:
            values: dict[str, str] = json.load(file)
    except FileNotFoundError:
        return {}
    return values


def remove(engine: str, request_id: str) -> None:
    files.remove(_path(engine, request_id))
