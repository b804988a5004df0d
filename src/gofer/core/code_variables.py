"""Variables that a command is given because of its code. Pure; `origin` is a gofer.model.run.CodeOrigin."""

from __future__ import annotations

from typing import Any, Dict, Mapping


def default_variables(origin: Mapping[str, Any]) -> Dict[str, str]:
    """For what the person did not set, also not to an empty value.

    Python writes each line at once, since a log is no terminal: a run that is stopped has its last lines.
    """
    found = {"PYTHONUNBUFFERED": "1", **(origin.get("versions") or {})}
    if origin.get("commit"):
        found["WANDB_GIT_COMMIT"] = str(origin["commit"])
    return found


def commit_variables(origin: Mapping[str, Any]) -> Dict[str, str]:
    """What git knows of the code; no variable for what is unknown."""
    found = {
        "GOFER_COMMIT": origin.get("commit"),
        "GOFER_BRANCH": origin.get("branch"),
        "GOFER_DIRTY": None if origin.get("dirty") is None else str(int(origin["dirty"])),
    }
    return {name: str(value) for name, value in found.items() if value is not None}
