"""`Home`: a home and a project folder for one test, and the command line of gofer as real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

# Long enough for a loaded machine; nothing here waits for as long unless something is wrong.
PATIENCE_S = 120.0
# For a command, which may wait for many runs.
_COMMAND_S = 300.0


class Done(NamedTuple):
    """How a command ended and what it wrote."""

    status: int
    out: str
    err: str


def until(probe: Callable[[], T], what: str, *, timeout_s: float = PATIENCE_S) -> T:
    """Ask again and again until the answer is true, and return it; AssertionError when time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s in vain: {what}; last answer {answer!r}")
        time.sleep(0.02)


class Home:
    """Everything one test needs of gofer. `prefix` comes before each command, to run it as somebody else."""

    def __init__(self, root: Path, *, prefix: Sequence[str] = ()) -> None:
        self.root = root
        self.path = root / "home"
        self.folder = root / "project"
        self.prefix = tuple(prefix)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GOFER_", "XDG_"))}
        # `python` in a test's command is the one that runs the test.
        search = os.pathsep.join([os.path.dirname(sys.executable), kept.get("PATH", os.defpath)])
        # A shell that a test opens must not read the start-up files of the user who runs the tests: a shell
        # that is killed while it reads them may leave their locks behind.
        user = root / "user"
        own = {"HOME": str(user), "GOFER_HOME": str(self.path), "GOFER_WORK_DIR": str(root)}
        self.environ = {**kept, **own, "PATH": search}
        for folder in (user, self.folder):
            folder.mkdir(parents=True, exist_ok=True)

    # -- the command line

    def argv(self, *words: str) -> list[str]:
        return [*self.prefix, sys.executable, "-m", "gofer", *words]

    def gofer(
        self, *words: str, status: int | None = 0, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> Done:
        """One command, to its end; AssertionError unless it exits with `status` (None: with any)."""
        done = subprocess.run(
            self.argv(*words),
            cwd=cwd or self.folder,
            env={**self.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_S,
            check=False,
        )
        out, err = (text.decode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
        assert "Traceback" not in err, err
        assert status is None or done.returncode == status, f"{words} exited {done.returncode}: {err}{out}"
        return Done(done.returncode, out, err)

    def finish_with_input(self) -> str:
        """The log of a run that was sent standard input and a secret file: it shows both."""
        (self.folder / ".env").write_text("SHOWN=abc\nKEY=dummy-key-0\n")
        words = ["--include", ".env", "sh", "-c", "stat -c %a .env; cat - .env"]
        done = subprocess.run(
            self.argv("submit", "-Q", "--wait", "--stdin", *words),
            cwd=self.folder,
            env=self.environ,
            input=b"from here\n",
            capture_output=True,
            timeout=_COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return self.log(done.stdout.decode().strip())

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """One command in the background; the test ends it."""
        return subprocess.Popen(
            self.argv(*words),
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def submit(self, *words: str) -> str:
        """The id of a run that takes no code along."""
        return self.gofer("submit", "-Q", "--no-code", *words).out.strip()

    def finish(self, *words: str) -> dict[str, Any]:
        """A run without code, to its end; its JSON."""
        done = self.gofer("submit", "-Q", "--no-code", "--wait", "--json", *words, status=None)
        assert done.out, done.err
        return self._parsed(done)

    def view(self, reference: str) -> dict[str, Any]:
        return self._parsed(self.gofer("q", "--json", reference))

    def wait(self, *references: str) -> list[dict[str, Any]]:
        """The runs' JSON once all have ended."""
        done = self.gofer(
            "wait", "-Q", "--json", "--timeout", f"{_COMMAND_S - 20:g}s", *references, status=None
        )
        assert done.out, done.err
        found = json.loads(done.out)
        return found if isinstance(found, list) else [found]

    def log(self, reference: str, *options: str) -> str:
        return self.gofer("logs", reference, *options).out

    def configure(self, text: str) -> None:
        """Write the project's gofer.yaml."""
        (self.folder / "gofer.yaml").write_text(text)

    @staticmethod
    def _parsed(done: Done) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(done.out)
        return value

    # -- what lies under it

    @property
    def queue_home(self) -> Path:
        return self.path / "engine" / socket.gethostname()

    @property
    def store(self) -> Path:
        return self.path / "store"

    def run_folder(self, run_id: str) -> Path:
        return self.store / "runs" / run_id

    def events(self, run_id: str, *, attempt: int = 1, node: int = 0) -> list[dict[str, Any]]:
        """What the agent of one node has told so far."""
        path = self.run_folder(run_id) / f"attempts/{attempt}/node-{node}/events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def until_event(self, run_id: str, event: str, *, attempt: int = 1, node: int = 0) -> dict[str, Any]:
        """The first event of that name, waited for."""
        return until(
            lambda: next(
                (
                    record
                    for record in self.events(run_id, attempt=attempt, node=node)
                    if record["event"] == event
                ),
                {},
            ),
            f"event {event} of {run_id}",
        )

    def until_logged(self, run_id: str, text: str, *, rank: int = 0) -> str:
        """The last log of a rank, or of set-up before there is one, once it holds this text."""

        def log_with_text() -> str:
            found = sorted(self.run_folder(run_id).glob(f"attempts/*/node-*/rank-{rank}.log"))
            found = found or sorted(self.run_folder(run_id).glob("attempts/*/node-*/setup.log"))
            words = found[-1].read_text(errors="replace") if found else ""
            return words if text in words else ""

        return until(log_with_text, f"{text!r} in the log of rank {rank} of {run_id}")

    # -- processes

    def supervisor(self) -> int | None:
        """The pid of this home's supervisor; None when there is none."""
        try:
            pid = int((self.queue_home / "supervisor.lock").read_text() or 0)
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self.queue_home) in command else None

    def agent(self, run_id: str, *, attempt: int = 1, node: int = 0) -> int:
        """The pid of the agent of one node, once its ranks run."""
        self.until_event(run_id, "started", attempt=attempt, node=node)
        return int(self.until_event(run_id, "agent", attempt=attempt, node=node)["pid"])

    def processes(self) -> dict[int, str]:
        """Words by pid of the living processes that show this home in their environment, words or folder."""
        mark = os.fsencode(self.root)
        found = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid() and not _is_zombie(name):
                words, environ, folder = _facts(name)
                if any(mark in text for text in (words, environ, folder)):
                    found[int(name)] = words.replace(b"\0", b" ").decode(errors="replace")
        return found

    def left_over(self) -> dict[int, str]:
        """As `processes`, less the supervisor and its agents, which wait a while for more to do."""
        return {
            pid: words
            for pid, words in self.processes().items()
            if not words.rstrip().endswith(f" {self.queue_home}")  # the last argument of a supervisor
        }

    def open_runs(self) -> list[tuple[str, str]]:
        """Id and state of the runs in the queue that have not ended."""
        if not (self.queue_home / "queue.db").exists():
            return []
        with closing(sqlite3.connect(self.queue_home / "queue.db", timeout=60)) as queue:
            return queue.execute(
                "SELECT id, state FROM runs WHERE state IN ('queued', 'starting', 'running')"
            ).fetchall()

    def kill_all(self) -> None:
        """Every process, as a power cut would. The supervisor first: it acts on the death of others."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            living = [pid for pid in (self.supervisor(), *self.processes()) if pid]
            if not living:
                return
            for pid in living:
                _kill(pid)
            time.sleep(0.02)

    def close(self) -> None:
        """End what is there, then fail if it was more than an idle supervisor with idle agents."""
        deadline = time.monotonic() + PATIENCE_S
        while (left := (self.left_over(), self.open_runs())) != ({}, []) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.kill_all()
        assert left == ({}, []), f"processes or runs outlived the test: {left}"


def _is_zombie(name: str) -> bool:
    try:
        stat = Path(f"/proc/{name}/stat").read_bytes()
    except OSError:
        return True
    return stat[stat.rindex(b")") + 2 :][:1] in (b"Z", b"X")


def _facts(name: str) -> tuple[bytes, bytes, bytes]:
    parts: list[bytes] = []
    for source in ("cmdline", "environ"):
        try:
            parts.append(Path(f"/proc/{name}/{source}").read_bytes())
        except OSError:
            parts.append(b"")
    try:
        folder = os.fsencode(os.readlink(f"/proc/{name}/cwd"))
    except OSError:
        folder = b""
    return parts[0], parts[1], folder


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
