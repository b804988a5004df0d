"""What can be asked of a machine about files of gofer's that no run needs any more.

Found things come as [kind, name, size, time, about]; what is to go is named by [kind, name].
"""

from __future__ import annotations

import os
from typing import List, Optional

from gofer.agent import pruning
from gofer.agent.far.answer import Answer
from gofer.agent.far.queue_verbs import in_full


def look(
    data: bytes,
    unused_since: float,
    engine: Optional[str] = None,
    folder: Optional[str] = None,
    own: str = "",
) -> Answer:
    """Of the queue's folder `engine`: old copies of folders, what runs could not send. Of `folder`, gofer's
    own on the machine: agents but the one called `own`.
    """
    found: List[pruning.Kept] = []
    if engine is not None:
        whole = in_full(engine)
        found += pruning.copies(whole, unused_since)
        found += pruning.unsent(os.path.join(whole, "unsent"))
        found += pruning.remains(whole)
    if folder is not None:
        found += pruning.agents(in_full(folder), own, unused_since)
        found += pruning.remains(in_full(folder))
    return Answer([list(one) for one in found])


def remove(
    data: bytes,
    doomed: List[List[str]],
    unused_since: float,
    engine: Optional[str] = None,
    folder: Optional[str] = None,
    own: str = "",
) -> Answer:
    """Each looked at once more; those that are gone now. OSError of one that cannot go, after the rest."""
    done: List[List[str]] = []
    problem: Optional[OSError] = None
    for kind, name in doomed:
        try:
            if _remove(kind, os.path.basename(name), unused_since, engine, folder, own):
                done.append([kind, name])
        except OSError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return Answer(done)


def _remove(
    kind: str, name: str, unused_since: float, engine: Optional[str], folder: Optional[str], own: str
) -> bool:
    if kind == pruning.AGENT and folder is not None:
        return pruning.remove_agent(in_full(folder), own, name, unused_since)
    if kind == pruning.REMAINS:
        places = [in_full(one) for one in (engine, folder) if one is not None]
        return all([pruning.remove_remains(one, name) for one in places])
    if engine is None:
        return False
    if kind == pruning.COPY:
        return pruning.remove_copy(in_full(engine), name, unused_since)
    aside = pruning.set_aside(in_full(engine), os.path.join(in_full(engine), "unsent", name))
    if aside is not None:
        pruning.delete(aside)
    return True


def rooms(data: bytes, folder: str) -> Answer:
    """The rooms of Slurm's runs below `folder`, and what those could not send."""
    from gofer.agent.slurm import pruning as of_slurm

    whole = in_full(folder)
    found = [*of_slurm.rooms(whole), *pruning.unsent(os.path.join(whole, "slurm", "unsent"))]
    return Answer([list(one) for one in found])


def remove_rooms(data: bytes, folder: str, whole: List[str], stubs: List[str], unsent: List[str]) -> Answer:
    """Rooms as a whole, rooms down to their stubs, and what was not sent."""
    from gofer.agent.slurm import pruning as of_slurm

    top = in_full(folder)
    for names, is_whole in ((whole, True), (stubs, False)):
        for name in names:
            of_slurm.remove(top, name, whole=is_whole)
    for name in unsent:
        aside = pruning.set_aside(top, os.path.join(top, "slurm", "unsent", os.path.basename(name)))
        if aside is not None:
            pruning.delete(aside)
    return Answer()


def tidy(data: bytes, path: str) -> Answer:
    """Remove empty folders at and below `path`."""
    pruning.tidy(in_full(path))
    return Answer()


VERBS = {
    "prune.look": look,
    "prune.remove": remove,
    "prune.rooms": rooms,
    "prune.remove_rooms": remove_rooms,
    "prune.tidy": tidy,
}
