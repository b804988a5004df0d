"""Slurm, asked from this machine, a login node."""

from __future__ import annotations

import io
import os
import signal
import threading
from contextlib import contextmanager
from typing import Dict, Iterator, List, Optional

from gofer.core import agent_installer, private_folder, prune
from gofer.core.prune import KeptItem, touch
from gofer.core.queue_home import full_path
from gofer.node.kept.keeper import KEPT
from gofer.remote.api import QueuedJob, RowsOfRuns, SlurmAnswer, SlurmNodeFacts, SlurmSurvey
from gofer.remote.slurm import handoff_prune, inventory, status, stop, submission


class LocalSlurm:
    """Implements SlurmApi. `folder` is gofer's folder of the site, which all its nodes share."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def agent(self, mark: str) -> Optional[str]:
        folder = os.path.join(self._agents(), mark)
        return folder if touch(folder) else None

    def install_agent(self, mark: str, data: bytes) -> None:
        agent_installer.install(io.BytesIO(data), self._agents(), mark)

    def submit(
        self, agent: str, request: Dict[str, object], script: str, private: bytes, timeout_s: float
    ) -> Optional[str]:
        # The touch also refreshes the agent's time, so that `prune` keeps it.
        if self.agent(agent) is None:
            return None
        with _without_hangup():
            return submission.submit(self._folder, request, script, private, timeout_s)

    def status(self, runs: RowsOfRuns, store: Optional[str]) -> SlurmAnswer:
        return status.read_status(self._folder, runs, store)

    def cancel(self, runs: RowsOfRuns, grace_s: Optional[float]) -> None:
        with _without_hangup():
            stop.cancel(self._folder, runs, grace_s)

    def queued_job(self, request_id: str, row: Optional[int]) -> Optional[QueuedJob]:
        return status.queued_job(request_id, row)

    def nodes(self, partition: Optional[str]) -> List[SlurmNodeFacts]:
        return inventory.nodes(partition)

    def survey(self, partition: Optional[str], account: Optional[str]) -> SlurmSurvey:
        return inventory.survey(partition, account)

    def kept_items(self) -> List[KeptItem]:
        top = full_path(self._folder)
        return [
            *handoff_prune.folders(top),
            *prune.unsent(os.path.join(top, "slurm", "unsent")),
            *prune.working_copies(os.path.join(top, "slurm", KEPT)),
        ]

    def remove_items(self, whole: List[str], stubs: List[str], unsent: List[str], copies: List[str]) -> None:
        top = full_path(self._folder)
        for names, is_whole in ((whole, True), (stubs, False)):
            for name in names:
                handoff_prune.remove(top, name, whole=is_whole)
        for name in unsent:
            aside = prune.set_aside(top, os.path.join(top, "slurm", "unsent", os.path.basename(name)))
            if aside is not None:
                prune.delete(aside)
        for name in copies:
            prune.remove_working_copy(top, os.path.join(top, "slurm", KEPT), name)

    def _agents(self) -> str:
        """The folder of the agents, made so that no other user can write in it."""
        agents = os.path.join(os.path.expanduser(self._folder), "agent")
        private_folder.make(agents, owned=2)
        return agents


@contextmanager
def _without_hangup() -> Iterator[None]:
    """Ignore SIGHUP meanwhile, so that a lost connection does not interrupt a request half-way."""
    # Python sets signal handlers only in the main thread.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
