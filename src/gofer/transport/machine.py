"""A machine that gofer asks: this machine, or another machine over SSH.

A machine gives the APIs of gofer.remote.api. Backends and stores use it in the same way wherever it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gofer.remote.api import FilesApi, KeptItemsApi, QueueApi, SlurmApi

# How long a call may take where nothing else is said.
CALL_S = 60.0


class Machine(Protocol):
    """One machine. Calls block and run one at a time; any thread may call.

    An API that was made with `wait_s` raises Unreachable when the machine does not answer in that time.
    """

    @property
    def name(self) -> str:
        """The name for messages: `this machine`, or the host for ssh."""

    def queue(self, queue_home: str) -> QueueApi:
        """The queue in a folder there."""

    def slurm(self, folder: str, *, wait_s: float = CALL_S) -> SlurmApi:
        """Slurm, where the machine is a login node; `folder` is gofer's folder of the site."""

    def files(self, root: str, *, wait_s: float = CALL_S) -> FilesApi:
        """The store in a folder there."""

    def kept_items(
        self, queue_home: str | None, folder: str | None, *, wait_s: float = CALL_S
    ) -> KeptItemsApi:
        """What gofer keeps in the folder of a queue and in its own folder there."""

    def close(self) -> None:
        """Close the connection. A later call connects again."""


class LocalMachine:
    """This machine: calls are carried out in this process, without a limit in time."""

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
        """Nothing to do."""
