"""Finds the verbs that gofer calls on a machine. A verb takes plain JSON values and bytes, and blocks.

A verb raises its errors unchanged: OSError, ObjectsError, ValueError. Over SSH, the caller gets the class
name of the error, its message and its number.
"""

from __future__ import annotations

from importlib import import_module
from typing import Callable, Dict

from gofer.remote.answer import Answer

Verb = Callable[..., Answer]

# By the word before the dot. A module is imported with the first call of one of its verbs.
_HOMES = {
    "machine": "gofer.remote.machine_verbs",
    "objects": "gofer.remote.objects_verbs",
    "prune": "gofer.remote.prune_verbs",
    "queue": "gofer.remote.queue_verbs",
    "slurm": "gofer.remote.slurm_verbs",
}


def find(name: str) -> Verb:
    """The function of a verb; KeyError when there is no such verb."""
    verbs: Dict[str, Verb] = import_module(_HOMES[name.partition(".")[0]]).VERBS
    return verbs[name]
