"""Verbs for Slurm on its login node; gofer.remote.slurm implements them.

Errors keep their class names: SlurmError (refused), SlurmSilent (no answer), JobRejected (never accepted).
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import Any, Iterator

from gofer.core import private_folder
from gofer.core.prune import touch
from gofer.remote.answer import Answer
from gofer.remote.slurm import inventory, status, stop, submission


def install(data: bytes, folder: str, name: str) -> Answer:
    """Unpack an agent, a zip file, into `<folder>/agent/<name>`. Does nothing when the folder exists."""
    place = _agent(folder, name)
    if not os.path.isdir(place):
        import io  # slow to load, and needed once for each version of gofer
        import shutil
        import zipfile

        unpacked = f"{place}.{os.uname().nodename}.{os.getpid()}.tmp"
        with zipfile.ZipFile(io.BytesIO(data)) as bundle:
            bundle.extractall(unpacked)
        try:
            os.rename(unpacked, place)
        except OSError:
            # A rename onto a folder fails when another process has installed the agent meanwhile.
            shutil.rmtree(unpacked, ignore_errors=True)
            if not os.path.isdir(place):
                raise
    return Answer(place)


def submit(
    data: bytes, folder: str, agent: str, request: dict[str, Any], script: str, timeout_s: float = 120.0
) -> Answer:
    """The job's number; None when the agent of that name must be installed first. `data` holds the secrets.

    A lost connection does not interrupt the submission.
    """
    # The touch also refreshes the agent's time, so that `prune` keeps it.
    if not touch(_agent(folder, agent)):
        return Answer(None)
    with _without_hangup():
        return Answer(submission.submit(folder, request, script, data, timeout_s))


def look(data: bytes, folder: str, runs: dict[str, list[int] | None], store: str | None = None) -> Answer:
    return Answer(status.look(folder, runs, store))


def cancel(
    data: bytes, folder: str, runs: dict[str, list[int] | None], grace_s: float | None = None
) -> Answer:
    with _without_hangup():
        stop.cancel(folder, runs, grace_s)
    return Answer()


def why(data: bytes, folder: str, request_id: str, row: int | None = None) -> Answer:
    return Answer(status.why(folder, request_id, row))


def nodes(data: bytes, partition: str | None = None) -> Answer:
    return Answer(inventory.nodes(partition))


def survey(data: bytes, partition: str | None = None, account: str | None = None) -> Answer:
    return Answer(inventory.survey(partition, account))


VERBS = {
    "slurm.install": install,
    "slurm.submit": submit,
    "slurm.look": look,
    "slurm.cancel": cancel,
    "slurm.why": why,
    "slurm.nodes": nodes,
    "slurm.survey": survey,
}


def _agent(folder: str, name: str) -> str:
    """The path of an agent. Makes its parent folders so that no other user can write in them."""
    agents = os.path.join(os.path.expanduser(folder), "agent")
    private_folder.make(agents, owned=2)
    return os.path.join(agents, name)


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
