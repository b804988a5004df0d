"""Environment variables that depend on the code of a run. Pure; `origin` is a gofer.model.run.CodeOrigin."""

from __future__ import annotations

from typing import Any, Dict, Mapping


def default_variables(origin: Mapping[str, Any]) -> Dict[str, str]:
    """Variables that are set unless the person set them, even to an empty value.

    PYTHONUNBUFFERED makes Python write each line at once, which it does not do by default when the output is
    a file. So the log of a run that is stopped has the last lines.
    """
    found = {"PYTHONUNBUFFERED": "1", **(origin.get("versions") or {})}
    if origin.get("commit"):
        found["WANDB_GIT_COMMIT"] = str(origin["commit"])
    return found


def commit_variables(origin: Mapping[str, Any]) -> Dict[str, str]:
    """What git says about the code: commit, branch, changes. A fact that is unknown gets no variable."""
    found = {
        "GOFER_COMMIT": origin.get("commit"),
        "GOFER_BRANCH": origin.get("branch"),
        "GOFER_DIRTY": None if origin.get("dirty") is None else str(int(origin["dirty"])),
    }
    return {name: str(value) for name, value in found.items() if value is not None}
