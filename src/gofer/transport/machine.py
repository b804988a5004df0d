"""Access to a machine: this machine, or another machine over SSH.

A `Machine` returns the APIs of gofer.remote.api. Backends and stores use both kinds of machine in the same
way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gofer.remote.api import FilesApi, KeptItemsApi, QueueApi, SlurmApi

# The time limit of a call in seconds, unless the caller gives another.
CALL_S = 60.0


class Machine(Protocol):
    """One machine. Any thread may call an API of the machine. A call blocks until the answer is there.

    Over SSH, calls are carried out one at a time, and a call raises gofer.errors.Unreachable when the machine
    does not answer within `wait_s` seconds (a call of the queue: within CALL_S). Whether the machine carried
    out such a call is unknown; the API can be used again. Calls on this machine have no time limit.
    """

    @property
    def name(self) -> str:
        """The name for messages: `this machine`, or the host for ssh."""

    def queue(self, queue_home: str) -> QueueApi:
        """The queue whose folder on the machine is `queue_home`. Calls nothing yet."""

    def slurm(self, folder: str, *, wait_s: float = CALL_S) -> SlurmApi:
        """Slurm, for which the machine must be a login node. `folder` is gofer's folder on the cluster."""

    def files(self, root: str, *, wait_s: float = CALL_S) -> FilesApi:
        """The store whose folder on the machine is `root`."""

    def kept_items(
        self, queue_home: str | None, folder: str | None, *, wait_s: float = CALL_S
    ) -> KeptItemsApi:
        """What gofer keeps in the folder of a queue and in its own `folder` on the machine. None leaves one
        out.
        """

    def close(self) -> None:
        """Close the connection, if there is one. Idempotent. A later call connects again."""


class LocalMachine:
    """This machine. Calls run in this process and have no time limit."""

    name = "this machine"

    # The implementations are imported where they are used: most commands need at most one of them.

    def queue(self, queue_home: str) -> QueueApi:
        from gofer.remote.local_queue import LocalQueue

        return LocalQueue(queue_home)

    def slurm(self, folder: str, *, wait_s: float = CALL_S) -> SlurmApi:
        from gofer.remote.local_slurm import LocalSlurm

        return LocalSlurm(folder)

    def files(self, root: str, *, wait_s: float = CALL_S) -> FilesApi:
        from gofer.remote.local_files import LocalFiles

        return LocalFiles(root)

    def kept_items(
        self, queue_home: str | None, folder: str | None, *, wait_s: float = CALL_S
    ) -> KeptItemsApi:
        from gofer.remote.local_kept_items import LocalKeptItems

        return LocalKeptItems(queue_home, folder)

    def close(self) -> None:
        """A local machine has no connection to close."""
