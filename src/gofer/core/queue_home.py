"""The folder of a machine's queue, folders in it, and the identity that distinguishes it from every queue."""

from __future__ import annotations

import os

from gofer.core import files, private_folder

# The variable that names a folder to use instead of /var/tmp for working copies: see work_folders.py.
WORK_DIR_VARIABLE = "GOFER_WORK_DIR"


def make_folder(queue_home: str) -> None:
    """Make the queue's folder. The folder and the two folders above it become private to the user.
    Idempotent.
    """
    private_folder.make(queue_home, owned=3)


def identity(queue_home: str) -> str:
    """A random word, made when the folder is first used. A run is sent again only to the queue whose identity
    was recorded for it.
    """
    path = os.path.join(queue_home, "id")
    while True:
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            make_folder(queue_home)
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "w", encoding="ascii") as file:
                file.write(os.urandom(8).hex())
            # when two processes do this at once, one link fails, and both read the same word
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            files.remove(temporary)


def spool_folder(queue_home: str, request_id: str) -> str:
    """The folder where the runs of a request write their files when their store is not a folder. The uploader
    sends the files on. The layout is that of a store.
    """
    return os.path.join(queue_home, "spool", request_id)


def unsent_folder(queue_home: str, run_id: str) -> str:
    """Where the folder of a run is kept when its files could not be sent to the store."""
    return os.path.join(queue_home, "unsent", run_id)


def full_path(path: str) -> str:
    """Expand `~` and `{host}`, the name of this machine. Machines may share a home, but not a queue."""
    return os.path.expanduser(path).replace("{host}", os.uname().nodename)
