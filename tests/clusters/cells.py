"""Namespaces to run a machine in, and the way to end everything in them.

A *wire* is a network of its own and outlives the machine that is plugged in; a *cell* has its own processes,
mounts and host name. Both are held open by `first.py`, whose arguments name the folder, and found by that.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeVar

from clusters.errors import ClusterError, with_logs

S = TypeVar("S")

_HERE = Path(__file__).resolve().parent
FIRST = str(_HERE / "first.py")
RELAY = str(_HERE / "relay.py")
_PREFIXES = ("nsenter", "unshare", "setpriv")
_GONE_TIMEOUT_S = 60.0

# Children of this process that are waited for when their folder is swept.
_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Daemon:
    """A daemon of a cell, seen from outside."""

    child: subprocess.Popen[bytes]
    name: str
    log: Path

    def check(self) -> None:
        """ClusterError with the end of its log if it has ended."""
        if self.child.poll() is not None:
            raise with_logs(f"{self.name} exited {self.child.returncode}", self.log)


def all_run(daemons: Sequence[Daemon]) -> bool:
    """True; ClusterError with the end of its log when one of them has ended."""
    for daemon in daemons:
        daemon.check()
    return True


@dataclass(frozen=True)
class Cell:
    """A running cell or wire. `pid` is its first process, as seen from outside."""

    folder: Path
    name: str
    pid: int

    @property
    def log(self) -> Path:
        return self.folder / "logs" / f"{self.name}.out"

    def inside(self, *argv: str) -> list[str]:
        """The command that runs `argv` in the cell."""
        spaces = ("--mount", "--pid", "--ipc", "--uts", "--net")
        return ["nsenter", f"--target={self.pid}", *spaces, "--wdns=/", "--", *argv]

    def call(self, *argv: str, timeout_s: float = 60.0) -> str:
        """Run to the end and return stdout; ClusterError with stderr when it fails."""
        return call(*self.inside(*argv), timeout_s=timeout_s)

    def start(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        can_stop: bool = False,
    ) -> Daemon:
        """Start a daemon that stays in the foreground; it ends with the cell.

        Of this process's environment it gets the search path alone. With `can_stop`, it can be sent STOP.
        """
        # nsenter stops itself when its child stops, and then it reaps nothing: no child of it may stop.
        words = ["sh", "-c", '"$@" & wait "$!"', "sh", *argv] if can_stop else argv
        known = {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin", **(env or {})}
        with open(log, "ab") as output:
            child = spawn(self.inside(*words), stdout=output, stderr=output, env=known)
        return Daemon(child, argv[0], log)


@dataclass(frozen=True)
class Setup:
    """What is particular to a cell: `binds` maps a place to the file or folder that is shown there."""

    hostname: str = ""
    binds: Mapping[str, Path] = field(default_factory=dict)
    empty: Sequence[str] = ()

    def text(self) -> str:
        binds = [[str(shown), place] for place, shown in self.binds.items()]
        return json.dumps({"hostname": self.hostname, "binds": binds, "empty": list(self.empty)})


def open_wire(folder: Path, name: str, *, tied: bool) -> Cell:
    """A network with nothing but a loopback interface. Tied, it dies with the thread that opened it."""
    wire = _open(folder, name, ["unshare", "--net"], Setup(), tied=tied)
    wire.call("ip", "link", "set", "lo", "up")
    return wire


def open_cell(folder: Path, name: str, setup: Setup, *, wire: Cell | None = None, tied: bool) -> Cell:
    """A machine, on the network of `wire` or, without one, on that of the caller."""
    argv = ["nsenter", f"--net=/proc/{wire.pid}/ns/net"] if wire else []
    argv += ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc"]
    return _open(folder, name, argv, setup, tied=tied)


def close(cell: Cell) -> None:
    """Kill the cell's first process, as a power cut would, and wait until all in it is gone. Idempotent."""
    with suppress(ProcessLookupError):
        os.kill(cell.pid, signal.SIGKILL)
    _wait_gone([cell.pid])


def find(folder: Path) -> dict[str, Cell]:
    """The wires and cells of this folder that are open, by name."""
    found = {}
    for pid, argv in _members(folder):
        if argv[0] not in _PREFIXES and FIRST in argv:
            name = argv[argv.index(FIRST) + 2]
            found[name] = Cell(folder, name, pid)
    return found


def attached(site: S | None, folder: Path, control: str, missing: str) -> S:
    """The site of a cluster that runs; ClusterError, by the words of `missing`, when the cell `control` of
    its folder is not open.
    """
    if site is None or control not in find(folder.resolve()):
        what, _, start = missing.partition(": ")
        raise ClusterError(f"{what} in {folder}: {start}")
    return site


def remove(folder: Path, site: S | None, clear_groups: Callable[[S], None]) -> bool:
    """End everything that ever started for this folder and remove it; whether there was anything.

    `clear_groups` removes the control groups of a cluster whose site is known.
    """
    if not sweep(folder) and site is None:
        return False
    if site is not None:
        clear_groups(site)
        shutil.rmtree(folder)
    return True


def find_one(folder: Path, name: str) -> Cell:
    """ClusterError unless it is open."""
    cell = find(folder).get(name)
    if cell is None:
        raise ClusterError(f"{name} is not running")
    return cell


def sweep(folder: Path) -> int:
    """End everything that ever started for this folder, however its `up` ended; how many were killed."""
    killed = 0
    # First those that hold a cell: `unshare`, which waits for them, then ends by itself and no zombie stays.
    for holders in (_PREFIXES, ()):
        pids = [pid for pid, argv in _members(folder) if argv[0] not in holders]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _wait_gone(pids)
        killed += len(pids)
    _reap()
    return killed


def call(
    *argv: str,
    timeout_s: float = 120.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    text: str = "",
) -> str:
    """Run to the end with `text` on stdin and return stdout; ClusterError with stderr on failure."""
    try:
        done = subprocess.run(
            argv,
            env=env,
            cwd=cwd,
            input=text.encode(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"`{' '.join(argv)}`: {error}") from error
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise ClusterError(f"`{' '.join(argv)}` exited {done.returncode}: {words}")
    return done.stdout.decode(errors="replace")


def spawn(
    argv: Sequence[str],
    *,
    stdout: IO[bytes] | int,
    stderr: IO[bytes],
    env: Mapping[str, str] | None = None,
    tied: bool = False,
) -> subprocess.Popen[bytes]:
    """A child in a session of its own. Tied, it is killed when the thread that called this ends."""
    prefix = ["setpriv", "--pdeathsig", "KILL"] if tied else []
    child = subprocess.Popen(
        [*prefix, *argv],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=env,
        start_new_session=True,
    )
    _reap()
    _children.append(child)
    return child


def first_line(child: subprocess.Popen[bytes], what: str, log: Path) -> str:
    """What the child says when it is ready; ClusterError with its log when it ends without a word."""
    assert child.stdout
    with child.stdout as stream:
        line = stream.readline()
    if not line:
        raise with_logs(f"{what} did not start", log)
    return line.decode().strip()


def _open(folder: Path, name: str, argv: Sequence[str], setup: Setup, *, tied: bool) -> Cell:
    log = folder / "logs" / f"{name}.out"
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [*argv, sys.executable, "-I", FIRST, str(folder), name, setup.text()]
    with open(log, "ab") as errors:
        child = spawn(words, stdout=subprocess.PIPE, stderr=errors, tied=tied)
    first_line(child, name, log)
    return find(folder)[name]


def _members(folder: Path) -> Iterator[tuple[int, list[str]]]:
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            argv = Path("/proc", entry, "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        for program in (FIRST, RELAY):
            if program in argv and argv[argv.index(program) + 1] == str(folder):
                yield int(entry), argv


def _wait_gone(pids: Sequence[int]) -> None:
    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while left := [pid for pid in pids if lives(pid)]:
        if time.monotonic() > deadline:
            raise ClusterError(f"killed, and still there after {_GONE_TIMEOUT_S:g} s: {left}")
        time.sleep(0.01)


def lives(pid: int) -> bool:
    """Whether there is such a process and it is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _reap() -> None:
    _children[:] = [child for child in _children if child.poll() is None]
