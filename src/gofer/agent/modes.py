"""How a mapped folder comes to be `./<name>` in a run."""

from __future__ import annotations

from typing import Any, Mapping

LINK = "link"
COPY = "copy"
MOUNT = "mount"
UPLOAD = "upload"


def needs_own_copy(request: Mapping[str, Any]) -> bool:
    """Whether each row of an array must have a working copy to itself, for a folder that it alone has."""
    return any(one["mode"] in (MOUNT, UPLOAD) for one in (request.get("folders") or {}).values())
