"""What gofer keeps on this machine and no run needs."""

from __future__ import annotations

import os
from typing import List, Optional, Tuple

from gofer.core import prune
from gofer.core.prune import KeptItem
from gofer.core.queue_home import full_path
from gofer.node.code import work_folders
from gofer.node.packages import cache as packages


class LocalKeptItems:
    """Implements KeptItemsApi, for the folder of a queue, or gofer's own folder with its agents, or both."""

    def __init__(self, queue_home: Optional[str], folder: Optional[str]) -> None:
        self._home = None if queue_home is None else full_path(queue_home)
        self._folder = None if folder is None else full_path(folder)

    @property
    def _tops(self) -> List[str]:
        return [path for path in (self._home, self._folder) if path is not None]

    def find(self, unused_since: float, agent: str) -> List[KeptItem]:
        found: List[KeptItem] = []
        if self._home is not None:
            found += prune.copies(self._home, unused_since)
            found += prune.unsent(os.path.join(self._home, "unsent"))
            for kept in work_folders.kept_folders(self._home):
                found += prune.working_copies(kept)
            found += prune.remains(self._home)
            found += packages.unused(packages.folder_in(self._home), unused_since)
        if self._folder is not None:
            found += packages.unused(packages.folder_in(self._folder), unused_since)
            found += prune.agents(self._folder, agent, unused_since)
            found += prune.remains(self._folder)
        return found

    def remove(self, items: List[Tuple[str, str]], unused_since: float, agent: str) -> List[Tuple[str, str]]:
        removed: List[Tuple[str, str]] = []
        problem: Optional[OSError] = None
        for kind, name in items:
            try:
                # basename: names come from the caller, and must not lead out of the folder.
                if self._remove(kind, os.path.basename(name), unused_since, agent):
                    removed.append((kind, name))
            except OSError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return removed

    def _remove(self, kind: str, name: str, unused_since: float, agent: str) -> bool:
        # Lists, not generators, in all(): every place must be tried, even after a failure in another.
        if kind == prune.AGENT and self._folder is not None:
            return prune.remove_agent(self._folder, agent, name, unused_since)
        if kind == prune.REMAINS:
            return all([prune.remove_remains(top, name) for top in self._tops])
        if kind == prune.PACKAGES:
            return all(
                [
                    packages.remove_unused(top, packages.folder_in(top), name, unused_since)
                    for top in self._tops
                ]
            )
        if self._home is None:
            return False
        if kind == prune.COPY:
            return prune.remove_copy(self._home, name, unused_since)
        if kind == prune.WORKING_COPY:
            kept = [top for top in work_folders.kept_folders(self._home) if name in prune.names_in(top)]
            return all([prune.remove_working_copy(os.path.dirname(top), top, name) for top in kept])
        aside = prune.set_aside(self._home, os.path.join(self._home, "unsent", name))
        if aside is not None:
            prune.delete(aside)
        return True
