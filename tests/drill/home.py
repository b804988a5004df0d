"""One GOFER_HOME with its project folder and its marks: where a round of the drill happens."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

TARGET = "box"
_CONFIG = f"targets:\n  {TARGET}: {{kind: local, gpus: 4, gpus_per_node: 2, store: here}}\n"
_COMMAND_TIMEOUT_S = 360.0


class Home:
    """A fresh home under `root`. `prefix` goes before every gofer command, `extra` into its environment.

    The folders may lie elsewhere, on a disk of their own; `queue_home` is where a link then points.
    """

    def __init__(
        self,
        root: Path,
        *,
        gofer_home: Path | None = None,
        store: Path | None = None,
        queue_home: Path | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.gofer_home = gofer_home or root / "home"
        self.project = root / "project"
        self.marks = root / "marks"
        self.script = root / "command.sh"
        self.store = store or self.gofer_home / "store"
        self.queue_home = self.gofer_home / "engine" / socket.gethostname()
        self.ledger = self.gofer_home / "ledger.db"
        self.prefix: tuple[str, ...] = ()
        self.extra = dict(extra or {})
        self.began = time.monotonic()
        for folder in (self.gofer_home, self.project, self.marks, self.store):
            folder.mkdir(parents=True, exist_ok=True)
        if queue_home is not None:
            queue_home.mkdir(parents=True, exist_ok=True)
            self.queue_home.parent.symlink_to(queue_home)
        shutil.copy(Path(__file__).with_name("command.sh"), self.script)
        (self.project / "train.py").write_text("print('the code of the drill')\n")
        (self.project / "gofer.yaml").write_text(
            f"{_CONFIG}stores:\n  here: {{url: {self.store.as_uri()}}}\ntarget: {TARGET}\n"
        )

    @property
    def environ(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("GOFER_")}
        places = {"GOFER_HOME": str(self.gofer_home), "GOFER_WORK_DIR": str(self.root)}
        return {**own, **places, "DRILL_SEAL": "kept", **self.extra}

    def release(self) -> None:
        """Let every command go on that holds, from now on."""
        (self.root / "released").touch()

    def argv(self, words: Sequence[str]) -> list[str]:
        return [*self.prefix, sys.executable, "-m", "gofer", *words]

    def start(self, words: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
        """A gofer command in a session of its own; stdout in `output`, stderr beside it. Does not wait."""
        with output.open("wb") as out, output.with_suffix(".err").open("wb") as err:
            return subprocess.Popen(
                self.argv(words),
                cwd=self.project,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def run(self, *words: str, timeout_s: float = _COMMAND_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """A gofer command to its end; TimeoutExpired when it hangs."""
        return subprocess.run(
            self.argv(words),
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
