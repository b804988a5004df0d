"""The verbs by which Slurm is asked on its login node; see gofer.node.slurm for what they do.

Errors keep their names on the way: SlurmError (refused), SlurmSilent (no answer), Rejected (never).
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
    """Unpack an agent, a zip, into `<folder>/agent/<name>`; nothing happens when it is there."""
    place = _agent(folder, name)
    if not os.path.isdir(place):
        import io  # once for each version of gofer, and slow to load
        import shutil
        import zipfile

        drawn = f"{place}.{os.uname().nodename}.{os.getpid()}.tmp"
        with zipfile.ZipFile(io.BytesIO(data)) as bundle:
            bundle.extractall(drawn)
        try:
            os.rename(drawn, place)
        except OSError:
            shutil.rmtree(drawn, ignore_errors=True)
            if not os.path.isdir(place):
                raise
    return Answer(place)


def submit(
    data: bytes, folder: str, agent: str, request: dict[str, Any], script: str, timeout_s: float = 120.0
) -> Answer:
    """The job's number; None when the agent of that name must be installed first. `data` is private.

    Whoever asks may hang up in the middle: it is done to the end all the same.
    """
    if not touch(_agent(folder, agent)):
        return Answer(None)
    with _undisturbed():
        return Answer(submission.submit(folder, request, script, data, timeout_s))


def look(data: bytes, folder: str, runs: dict[str, list[int] | None], store: str | None = None) -> Answer:
    return Answer(status.look(folder, runs, store))


def cancel(
    data: bytes, folder: str, runs: dict[str, list[int] | None], grace_s: float | None = None
) -> Answer:
    with _undisturbed():
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
    """Where the agent of that name is or would be, in folders that nobody else can write."""
    agents = os.path.join(os.path.expanduser(folder), "agent")
    private_folder.make(agents, owned=2)
    return os.path.join(agents, name)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A line that is cut must not end what has begun."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
