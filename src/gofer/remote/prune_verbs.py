"""Verbs for things on a machine that gofer keeps and no run needs.

Found things are [kind, name, size, time, about]; things to remove are [kind, name].
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
    queue_home: Optional[str] = None,
    folder: Optional[str] = None,
    own: str = "",
) -> Answer:
    """What `gofer prune` may remove.

    From the queue's folder `queue_home`: old copies of folders, output that could not be uploaded, working
    copies. From gofer's own `folder`: agents other than `own`. From both: built packages.
    """
    found: List[prune.KeptItem] = []
    if queue_home is not None:
        whole = in_full(queue_home)
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
    return Answer([list(item) for item in found])


def remove(
    data: bytes,
    doomed: List[List[str]],
    unused_since: float,
    queue_home: Optional[str] = None,
    folder: Optional[str] = None,
    own: str = "",
) -> Answer:
    """Remove things and return those that are gone. Each is checked again right before its removal.

    An OSError of one thing is raised after the others have been removed.
    """
    done: List[List[str]] = []
    problem: Optional[OSError] = None
    # basename below: names come from the caller, and must not lead out of the folder.
    for kind, name in doomed:
        try:
            if _remove(kind, os.path.basename(name), unused_since, queue_home, folder, own):
                done.append([kind, name])
        except OSError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return Answer(done)


def _remove(
    kind: str, name: str, unused_since: float, queue_home: Optional[str], folder: Optional[str], own: str
) -> bool:
    if kind == prune.AGENT and folder is not None:
        return prune.remove_agent(in_full(folder), own, name, unused_since)
    if kind == prune.REMAINS:
        places = [in_full(path) for path in (queue_home, folder) if path is not None]
        # A list, not a generator: every place must be tried, even after a failure in another.
        return all([prune.remove_remains(place, name) for place in places])
    if kind == prune.PACKAGES:
        places = [in_full(path) for path in (queue_home, folder) if path is not None]
        found = [packages.remove_unused(top, packages.folder_in(top), name, unused_since) for top in places]
        return all(found)
    if queue_home is None:
        return False
    if kind == prune.COPY:
        return prune.remove_copy(in_full(queue_home), name, unused_since)
    if kind == prune.WORKING_COPY:
        tops = [top for top in work_folders.kept_folders(in_full(queue_home)) if name in prune.names_in(top)]
        return all([prune.remove_working_copy(os.path.dirname(top), top, name) for top in tops])
    aside = prune.set_aside(in_full(queue_home), os.path.join(in_full(queue_home), "unsent", name))
    if aside is not None:
        prune.delete(aside)
    return True


def rooms(data: bytes, folder: str) -> Answer:
    """The handoff folders of Slurm runs below `folder`, output that could not be uploaded, and working
    copies.
    """
    from gofer.remote.slurm import prune as of_slurm

    whole = in_full(folder)
    found = [*of_slurm.rooms(whole), *prune.unsent(os.path.join(whole, "slurm", "unsent"))]
    found += prune.working_copies(os.path.join(whole, "slurm", KEPT))
    return Answer([list(item) for item in found])


def remove_rooms(
    data: bytes,
    folder: str,
    whole: List[str],
    stubs: List[str],
    unsent: List[str],
    copies: Sequence[str] = (),
) -> Answer:
    """Remove handoff folders completely or down to their stubs, unsent output, and working copies."""
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
