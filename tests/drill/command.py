"""A gofer command that the drill gave."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from drill.workload import Spec


class Command:
    """A gofer command that was started and may be killed."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, verb: str, spec: Spec | None) -> None:
        self.process = process
        self.output = output
        self.verb = verb
        self.spec = spec
        self.began = time.monotonic()
        self.dies_at: float | None = None

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def printed(self) -> list[str]:
        """The whole lines on its stdout; a run id is one."""
        return [line for line in self.output.read_text().split("\n")[:-1] if line]
