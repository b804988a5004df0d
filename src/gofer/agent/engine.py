"""The folder of a machine's queue, and the name that tells it from all others."""

from __future__ import annotations

import os

from gofer.agent import files


def identity(engine: str) -> str:
    """A word drawn when the folder is first used. Only where it was recorded is a run sent again."""
    path = os.path.join(engine, "id")
    while True:
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            os.makedirs(engine, mode=0o700, exist_ok=True)
        drawn = f"{path}.{os.getpid()}.tmp"
        try:
            with open(drawn, "w", encoding="ascii") as file:
                file.write(os.urandom(8).hex())
            os.link(drawn, path)  # of two that draw at once, one wins
        except FileExistsError:
            pass
        finally:
            files.remove(drawn)
