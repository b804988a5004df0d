"""Write a node's events and heartbeats. A full disk may lose some of them, and stops nothing."""

from __future__ import annotations

import os
import time
from typing import Callable, Dict

from gofer.core import files, gpus, run_layout
from gofer.core.gpus import GpuReading
from gofer.node import memory

_REPORT_S = 5.0

Event = Callable[..., None]


class EventLog:
    """Writes the events and the heartbeat of one node. They are for people: nothing decides by them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._events: int | None = None
        self._peaks: dict[str, float] = {}

    def note(self, event: str, **facts: object) -> None:
        """Append an event. Never raises."""
        line = files.encode({"at": time.time(), "event": event, **facts}) + b"\n"
        try:
            if self._events is None:
                path = os.path.join(self._path, run_layout.EVENTS)
                self._events = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            os.write(self._events, line)
        except OSError:
            pass

    def note_limits(self, problems: list[str]) -> None:
        """Append an event about limits of the submitting shell that the command cannot get."""
        self.note("limits", problems=problems)

    def beat(self, watched_gpus: list[int], pids: list[int]) -> None:
        """Replace the heartbeat file. Never raises."""
        rss_mib = memory.resident_mib(pids)
        facts: dict[str, object] = {"at": time.time(), "rss_mib": rss_mib}
        facts["rss_peak_mib"] = self._peak("rss", rss_mib)
        facts["gpus"] = [self._with_peaks(reading) for reading in gpus.sample(watched_gpus)]
        try:
            files.write_whole(os.path.join(self._path, run_layout.HEARTBEAT), files.encode(facts))
        except OSError:
            pass

    def _with_peaks(self, reading: GpuReading) -> dict[str, object]:
        """A reading of a GPU, with the highest values so far."""
        index = reading["index"]
        used, busy = reading.get("memory_used_mib"), reading.get("utilisation")
        return {
            **reading,
            "memory_peak_mib": None if used is None else self._peak(f"memory {index}", used),
            "utilisation_peak": None if busy is None else self._peak(f"utilisation {index}", busy),
        }

    def _peak(self, name: str, value: float) -> float:
        self._peaks[name] = max(value, self._peaks.get(name, value))
        return self._peaks[name]

    def close(self) -> None:
        if self._events is not None:
            os.close(self._events)
            self._events = None


class FolderProgress:
    """Reports one folder: an event for each step, and counts every few seconds in between."""

    def __init__(self, event: Event, name: str, mode: str) -> None:
        self._event = event
        self._about = {"name": name, "mode": mode}
        self._step = ""
        self._counts: Dict[str, object] = {}
        self._next_report = 0.0

    def report(self, step: str, **facts: object) -> None:
        self._step = step
        self._event("folder", **self._about, step=step, **self._counts, **facts)
        self._next_report = time.monotonic() + _REPORT_S

    def receive(self, message: Dict[str, object]) -> None:
        if "waiting" in message:
            self._event("folder", **self._about, step="waiting")
            self._next_report = 0.0
            return
        self._counts = message
        if time.monotonic() >= self._next_report:
            self.report(self._step)
