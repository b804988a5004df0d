"""What can be asked of a machine. Each verb takes plain JSON values and bytes, and blocks.

A verb raises what goes wrong as it is: OSError, ObjectsError, ValueError. Whoever calls from far away is told
the name of the error, its words and its number.
"""

from __future__ import annotations

from importlib import import_module
from typing import Callable, Dict

from gofer.remote.answer import Answer

Verb = Callable[..., Answer]

# By the word before the dot; loaded when first asked for.
_HOMES = {
    "machine": "gofer.remote.machine_verbs",
    "objects": "gofer.remote.objects_verbs",
    "prune": "gofer.remote.prune_verbs",
    "queue": "gofer.remote.queue_verbs",
    "slurm": "gofer.remote.slurm_verbs",
}


def find(name: str) -> Verb:
    """KeyError when there is no such verb."""
    verbs: Dict[str, Verb] = import_module(_HOMES[name.partition(".")[0]]).VERBS
    return verbs[name]
