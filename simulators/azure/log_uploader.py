"""Carries a job's log files to its folder in the artifact store while they grow, as append blobs."""

from __future__ import annotations

import threading
from pathlib import Path

from simulators.azure.blobs import BlobError, Container
from simulators.azure.jobs import JobTable, SimulatedJob

_EVERY_S = 0.5


class LogUploader:
    """A thread from `start` to `finish`; what could not be sent is tried again with the next round."""

    def __init__(self, jobs: JobTable, job: SimulatedJob, container: Container) -> None:
        self._jobs = jobs
        self._job = job
        self._container = container
        self._files: dict[str, Path] = {}
        self._sent: dict[str, int] = {}
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, name: str, path: Path) -> None:
        """A file to carry, told of at once in the job's list of logs; what an earlier attempt sent stays."""
        with self._lock:
            self._container.start_append(f"{self._job.folder}/{name}")
            self._files[name] = path
            self._sent[name] = 0
        with self._jobs.changed:
            if name not in self._job.logs:
                self._job.logs.append(name)
                self._jobs.save(self._job)

    def finish(self) -> None:
        """Waits until everything is there."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(_EVERY_S):
            self._round()
        for _ in range(5):
            if self._round():
                break
        self._container.close()

    def _round(self) -> bool:
        with self._lock:
            for name, path in self._files.items():
                try:
                    self._send(name, path)
                except (BlobError, OSError):
                    return False
        return True

    def _send(self, name: str, path: Path) -> None:
        if not path.exists() or path.stat().st_size <= self._sent[name]:
            return
        with open(path, "rb") as stream:
            stream.seek(self._sent[name])
            data = stream.read(16 << 20)
        self._container.append(f"{self._job.folder}/{name}", data)
        self._sent[name] += len(data)
