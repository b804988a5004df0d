"""The folder of a machine's queue, and the name that tells it from all others."""

from __future__ import annotations

import os

from gofer.core import files, private_folder

# Names the folder that takes the place of /var/tmp for working copies: see gofer.node.work_folders.
WORK_DIR_VARIABLE = "GOFER_WORK_DIR"


def make_folder(engine: str) -> None:
    """The queue's folder, private to the user, and so are the two folders above it that gofer made."""
    private_folder.make(engine, owned=3)


def identity(engine: str) -> str:
    """A word drawn when the folder is first used. Only where it was recorded is a run sent again."""
    path = os.path.join(engine, "id")
    while True:
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            make_folder(engine)
        drawn = f"{path}.{os.getpid()}.tmp"
        try:
            with open(drawn, "w", encoding="ascii") as file:
                file.write(os.urandom(8).hex())
            os.link(drawn, path)  # of two that draw at once, one wins
        except FileExistsError:
            pass
        finally:
            files.remove(drawn)
