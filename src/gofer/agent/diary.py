"""What a node tells on the way: events and signs of life. A full disk may lose one, and stops nothing."""

from __future__ import annotations

import os
import time

from gofer.agent import files, folder, gpus, memory


class Diary:
    """The files of one node's folder that help to understand a run, and decide nothing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._events: int | None = None

    def note(self, event: str, **facts: object) -> None:
        """Add a line to the events."""
        line = files.encode({"at": time.time(), "event": event, **facts}) + b"\n"
        try:
            if self._events is None:
                path = os.path.join(self._path, folder.EVENTS)
                self._events = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            os.write(self._events, line)
        except OSError:
            pass

    def beat(self, watched_gpus: list[int], pids: list[int]) -> None:
        """Replace the last sign of life."""
        facts = {"at": time.time(), "gpus": gpus.sample(watched_gpus), "rss_mib": memory.resident_mib(pids)}
        try:
            files.write_whole(os.path.join(self._path, folder.HEARTBEAT), files.encode(facts))
        except OSError:
            pass

    def close(self) -> None:
        if self._events is not None:
            os.close(self._events)
            self._events = None
