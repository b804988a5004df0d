"""One command line in a forked process: what it wrote, how it ended, its CPU and memory."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import resource
import select
import shutil
import signal
import socket
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple, NoReturn

from fuzz import bucket, service
from fuzz.case import Case
from fuzz.home import HomeCopy
from fuzz.mutation import damaged

# A busy machine may let a process wait for long, so that work is judged by the CPU it takes.
LIMIT_S = 180.0
_MOST_CPU_S = 10.0
_MOST_MIB = 500
_MEMORY_BYTES = 4 << 30
# 0, 1 and 2 are gofer's own; 124 is `wait --timeout`; 3 is that of a run in the seed home.
# `wait` exits with 255 for a run whose recorded exit code is greater.
_STATUSES = (0, 1, 2, 3, 124, 255)
_ODD_WORDS = ("error: unexpected ", "please report it")
_TRACEBACK = "Traceback (most recent call last)"
# Of a long answer, this much is looked at from both ends.
_LOOKED_AT_BYTES = 1 << 20
# Modules that need what gofer does not: a test framework, PyTorch. And programs, which run when imported.
_NOT_LOADED = ("gofer.testing", "gofer.torch", "gofer.__main__")


class Answer(NamedTuple):
    """How one case ended. `status` is None when it was killed for the time it took. With `debug` gofer was
    asked to show tracebacks.
    """

    status: int | None
    text: str
    cpu_s: float
    mib: int
    debug: bool = False

    def problem(self) -> str | None:
        """What is wrong with the answer, in words; None when nothing is."""
        if self.status is None:
            return f"it did not end within {LIMIT_S:g} s"
        odd_words = _ODD_WORDS if self.debug else (*_ODD_WORDS, _TRACEBACK)
        odd = next((word for word in odd_words if word in self.text), None)
        if odd is not None:
            line = next(line for line in self.text.split("\n") if odd in line)
            return line[:300]
        if self.status not in _STATUSES:
            return f"exit status {self.status}: {self.text[-200:]}"
        if self.cpu_s > _MOST_CPU_S:
            return f"{self.cpu_s:.0f} s of CPU"
        return f"{self.mib} MiB of memory" if self.mib > _MOST_MIB else None


class Workplace:
    """A folder in which cases run one after the other, each with a new project and a home like the seed."""

    def __init__(self, seed_home: Path, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._project = folder / "project"
        self._output = folder / "output"
        self._home = HomeCopy(_seed_for(seed_home, folder), folder / "home")

    def run(self, case: Case) -> Answer:
        """Run the case in a child process; blocks until the child ends, at most LIMIT_S for each command."""
        shutil.rmtree(self._project, ignore_errors=True)
        self._project.mkdir()
        self._home.restore()
        home = self._home.path
        server = service.listen() if case.answers or case.bucket else None
        port = str(server.getsockname()[1]).encode() if server else b""
        _write(self._project, {name: data.replace(b"{PORT}", port) for name, data in case.files.items()})
        _write(home, {**case.home, **{f"store/{key}": data for key, data in case.store.items()}})
        _edit(home, case)
        if case.before:
            first = self._answer(replace(case, argv=case.before), server)
            if first.problem() is not None:
                return first
        answer = self._answer(case, server)
        if server is not None:
            server.close()
        return answer

    def _answer(self, case: Case, server: socket.socket | None) -> Answer:
        self._output.unlink(missing_ok=True)
        pid = os.fork()
        if pid == 0:
            if server is not None and case.bucket:
                bucket.serve(server, case.bucket)
            elif server is not None:
                service.serve(server, case.answers)
            _be_gofer(case, self._project, self._home.path, self._output)
        status, usage = _wait(pid)
        cpu_s = usage.ru_utime + usage.ru_stime
        return Answer(status, _read(self._output), cpu_s, usage.ru_maxrss >> 10, _asks_for_tracebacks(case))


def preload() -> int:
    """Import every module of gofer, so that no child has to; the number of modules.

    An error that occurs while a module is imported cannot be found by the inputs that follow.
    """
    package = importlib.import_module("gofer")
    names = [found.name for found in pkgutil.walk_packages(package.__path__, "gofer.")]
    names = [name for name in names if not name.startswith(_NOT_LOADED) and not name.endswith(".__main__")]
    for name in names:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    return len(names)


def _seed_for(seed_home: Path, folder: Path) -> Path:
    """A copy of the seed home whose ledger says that the runs are in the store of `folder / "home"`."""
    seed = folder / "seed"
    shutil.rmtree(seed, ignore_errors=True)
    shutil.copytree(seed_home, seed, symlinks=True, ignore=_special_files)
    urls = (seed_home.as_uri(), (folder / "home").as_uri())
    with closing(sqlite3.connect(seed / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE runs SET store = replace(store, ?, ?)", urls)
        ledger.execute("UPDATE definitions SET store = replace(store, ?, ?)", urls)
        ledger.execute("UPDATE definitions SET data = replace(data, ?, ?)", urls)
    return seed


def _special_files(folder: str, names: list[str]) -> list[str]:
    """Pipes and sockets, which cannot be copied."""
    paths = {name: Path(folder) / name for name in names}
    return [
        name for name, path in paths.items() if not (path.is_file() or path.is_dir() or path.is_symlink())
    ]


def _asks_for_tracebacks(case: Case) -> bool:
    return "--debug" in case.argv or case.environ.get("GOFER_DEBUG", "0") not in ("", "0")


def _write(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if name.startswith("bin/") else 0o600)


def _edit(home: Path, case: Case) -> None:
    """Change the ledger and other files of the home as the case says."""
    if case.ledger:
        with closing(sqlite3.connect(home / "ledger.db")) as ledger, ledger:
            for statement, values in case.ledger:
                ledger.execute(statement, values)
    for name, number in case.damage.items():
        path = home / name
        path.write_bytes(damaged(Random(number), path.read_bytes()))


def _read(path: Path) -> str:
    """What was written to a file: all of it, or of much only the beginning and the end."""
    try:
        with path.open("rb") as file:
            data = file.read(_LOOKED_AT_BYTES)
            size = os.fstat(file.fileno()).st_size
            if size > _LOOKED_AT_BYTES:
                file.seek(max(_LOOKED_AT_BYTES, size - _LOOKED_AT_BYTES))
                data += b"\n" + file.read()
    except FileNotFoundError:
        return ""
    return data.decode("utf-8", "replace")


def _wait(pid: int) -> tuple[int | None, resource.struct_rusage]:
    """The exit status, None for a child that had to be killed, and what the child used."""
    watched = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        ended = poll.poll(LIMIT_S * 1000)
        if not ended:
            signal.pidfd_send_signal(watched, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
    finally:
        os.close(watched)
    return os.waitstatus_to_exitcode(status) if ended else None, usage


def _be_gofer(case: Case, project: Path, home: Path, output: Path) -> NoReturn:
    """In the forked child. Nothing may return into the fuzzer's code."""
    status = 99
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        os.chdir(project)
        _open_streams(output)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        os.environ.clear()
        given = {name: text.replace("{PROJECT}", str(project)) for name, text in case.environ.items()}
        os.environ.update({**kept, "HOME": str(project.parent), "GOFER_HOME": str(home), **given})
        sys.argv = ["gofer", *case.argv]
        from gofer.cli.main import entry

        entry()
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
        sys.stderr.flush()
    except BaseException as error:
        os.write(2, f"error: unexpected {error!r}\n".encode("utf-8", "replace"))
    os._exit(status & 0xFF)


def _open_streams(output: Path) -> None:
    """Standard streams as an interpreter makes them, whatever the streams of the fuzzer were replaced by."""
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((null, 0), (target, 1), (target, 2)):
        os.dup2(old, new)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
