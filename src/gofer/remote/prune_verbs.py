"""What can be asked of a machine about files of gofer's that no run needs any more.

Found things come as [kind, name, size, time, about]; what is to go is named by [kind, name].
"""

from __future__ import annotations

import os
from typing import List, Optional, Sequence

from gofer.core import prune
from gofer.node import work_folders
from gofer.node.kept.keeper import KEPT
from gofer.node.packages import cache as packages
from gofer.remote.answer import Answer
from gofer.remote.queue_verbs import in_full


def look(
    data: bytes,
    unused_since: float,
    engine: Optional[str] = None,
    folder: Optional[str] = None,
    own: str = "",
) -> Answer:
    """Of the queue's folder `engine`: old copies of folders, what runs could not send, and working copies.
    Of `folder`, gofer's own on the machine: agents but the one called `own`. Of both: built packages.
    """
    found: List[prune.KeptItem] = []
    if engine is not None:
        whole = in_full(engine)
        found += prune.copies(whole, unused_since)
        found += prune.unsent(os.path.join(whole, "unsent"))
        for kept in work_folders.kept_folders(whole):
            found += prune.working_copies(kept)
        found += prune.remains(whole)
        found += packages.unused(packages.folder_in(whole), unused_since)
    if folder is not None:
        found += packages.unused(packages.folder_in(in_full(folder)), unused_since)
        found += prune.agents(in_full(folder), own, unused_since)
        found += prune.remains(in_full(folder))
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
    if kind == prune.AGENT and folder is not None:
        return prune.remove_agent(in_full(folder), own, name, unused_since)
    if kind == prune.REMAINS:
        places = [in_full(one) for one in (engine, folder) if one is not None]
        return all([prune.remove_remains(one, name) for one in places])
    if kind == prune.PACKAGES:
        places = [in_full(one) for one in (engine, folder) if one is not None]
        found = [packages.remove_unused(one, packages.folder_in(one), name, unused_since) for one in places]
        return all(found)
    if engine is None:
        return False
    if kind == prune.COPY:
        return prune.remove_copy(in_full(engine), name, unused_since)
    if kind == prune.WORKING_COPY:
        tops = [top for top in work_folders.kept_folders(in_full(engine)) if name in prune.names_in(top)]
        return all([prune.remove_working_copy(os.path.dirname(top), top, name) for top in tops])
    aside = prune.set_aside(in_full(engine), os.path.join(in_full(engine), "unsent", name))
    if aside is not None:
        prune.delete(aside)
    return True


def rooms(data: bytes, folder: str) -> Answer:
    """The rooms of Slurm's runs below `folder`, what those could not send, and working copies that stayed."""
    from gofer.remote.slurm import prune as of_slurm

    whole = in_full(folder)
    found = [*of_slurm.rooms(whole), *prune.unsent(os.path.join(whole, "slurm", "unsent"))]
    found += prune.working_copies(os.path.join(whole, "slurm", KEPT))
    return Answer([list(one) for one in found])


def remove_rooms(
    data: bytes,
    folder: str,
    whole: List[str],
    stubs: List[str],
    unsent: List[str],
    copies: Sequence[str] = (),
) -> Answer:
    """Rooms as a whole, rooms down to their stubs, what was not sent, and working copies."""
    from gofer.remote.slurm import prune as of_slurm

    top = in_full(folder)
    for names, is_whole in ((whole, True), (stubs, False)):
        for name in names:
            of_slurm.remove(top, name, whole=is_whole)
    for name in unsent:
        aside = prune.set_aside(top, os.path.join(top, "slurm", "unsent", os.path.basename(name)))
        if aside is not None:
            prune.delete(aside)
    for name in copies:
        prune.remove_working_copy(top, os.path.join(top, "slurm", KEPT), name)
    return Answer()


def tidy(data: bytes, path: str) -> Answer:
    """Remove empty folders at and below `path`."""
    prune.tidy(in_full(path))
    return Answer()


VERBS = {
    "prune.look": look,
    "prune.remove": remove,
    "prune.rooms": rooms,
    "prune.remove_rooms": remove_rooms,
    "prune.tidy": tidy,
}
