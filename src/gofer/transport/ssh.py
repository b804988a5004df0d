"""A machine at the other end of an SSH connection, through the user's own `ssh`.

What a person set up for `ssh HOST` (keys, jump hosts, names in ~/.ssh/config, known hosts) holds here too.
Connections are shared with other gofer commands for a minute, so that each costs one round trip. The agent is
sent when the machine does not have it; what a login prints before that is passed over.
"""

from __future__ import annotations

import json
import os
import select
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from gofer.core import private_folder
from gofer.core.json_text import parse_json
from gofer.errors import CheckFailed, Unreachable
from gofer.transport.machine import RemoteFailure

if TYPE_CHECKING:
    import subprocess

    from gofer.remote.answer import Answer

_CONNECT_S = 20
_GREETING_S = 60.0
_KEEP_S = 60
_MOST_NOISE = 4 << 20
_PIECE = 1 << 18
# A socket's path is at most 107 bytes, of which the name takes 40 and what ssh adds while it connects 17.
_LONGEST_RUNTIME = 40


class Login(NamedTuple):
    """How to reach a machine: what `ssh` is told, and the Python to use there."""

    host: str
    python: str = "python3"
    folder: str = "~/.gofer"


def sockets_folder(environ: Mapping[str, str]) -> Path:
    """Where shared connections are kept: a folder of this user's alone, with a short name.

    CheckFailed when somebody else has taken that name.
    """
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK) and len(runtime) <= _LONGEST_RUNTIME:
        folder = Path(runtime) / "gofer"
    else:
        folder = Path(f"/tmp/gofer-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    held = folder.lstat()
    if held.st_uid != os.getuid() or held.st_mode & 0o077 or not stat.S_ISDIR(held.st_mode):
        raise CheckFailed(
            f"{folder} is not a folder of yours alone", hint="set `XDG_RUNTIME_DIR` to one that is"
        )
    return folder


class SshMachine:
    """The machine that `ssh HOST` reaches."""

    def __init__(self, login: Login, *, sockets: Path) -> None:
        self._login = login
        self._sockets = sockets
        self._line: _Line | None = None
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        return self._login.host

    def call(self, verb: str, data: bytes = b"", *, wait_s: float = 60.0, **arguments: Any) -> Answer:
        with self._lock:
            if self._line is not None and not self._line.is_open:
                self.close()  # it was cut while nobody used it
            line = self._line or self._connect()
            self._line = line
            try:
                header, found = line.ask({"verb": verb, "arguments": arguments}, data, wait_s)
            except BaseException:
                # An answer that was not read would be taken for that to the next question.
                self.close()
                raise
        from gofer.remote.answer import Answer

        if "error" in header:
            raise RemoteFailure(self.name, verb, header["error"])
        return Answer(header["value"], found)

    def close(self) -> None:
        with self._lock:
            line, self._line = self._line, None
            if line is not None:
                line.close()

    def _connect(self) -> _Line:
        private_folder.make_missing(self._sockets)
        line = _Line(self._login, self._sockets)
        try:
            line.greet()
        except BaseException:
            line.close()
            raise
        return line


def ssh_argv(host: str, sockets: Path) -> list[str]:
    """How `ssh` is called: nothing is asked on a terminal, and connections are shared."""
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(_CONNECT_S),
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "3",
        "ControlMaster": "auto",
        "ControlPersist": str(_KEEP_S),
        "ControlPath": f"{sockets}/%C",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", "-T", *words, "--", host]


_reached: dict[Login, SshMachine] = {}


def reach(login: Login) -> SshMachine:
    """The machine, the same object for the same login within the process, so that its line is shared."""
    if login not in _reached:
        _reached[login] = SshMachine(login, sockets=sockets_folder(os.environ))
    return _reached[login]


class _Line:
    """One `ssh` process and the frames that go through it."""

    def __init__(self, login: Login, sockets: Path) -> None:
        import shlex
        import subprocess
        import tempfile

        from gofer.transport import bootstrap

        self._login = login
        self._nonce = os.urandom(12).hex()
        # A file, since a shared connection that stays in the background would hold a pipe open.
        self._complaints: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115
        command = bootstrap.command(login.python, login.folder, self._nonce)
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [*ssh_argv(login.host, sockets), shlex.join(command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                start_new_session=True,  # Ctrl-C is for gofer, which decides what becomes of the line
                bufsize=0,
            )
        except OSError as error:
            raise Unreachable(
                f"`ssh` cannot be started: {error.strerror}", hint="install OpenSSH's client"
            ) from error
        self._held = b""

    def greet(self) -> None:
        """Until the agent over there says that it listens; it is sent when it is missing."""
        from gofer.transport import bootstrap

        deadline = time.monotonic() + _GREETING_S
        word = self._await_word(deadline)
        if word == bootstrap.NEEDED:
            from gofer.transport.bundle import bundle

            data = bundle().data
            self._write(f"{len(data)}\n".encode() + data, deadline)
            word = self._await_word(deadline)
        if word != bootstrap.READY:
            raise Unreachable(
                f"{self._login.host} has Python {word}, and gofer needs 3.8 or newer there",
                hint="name a newer one in the target: `python: /path/to/python3`",
            )

    @property
    def is_open(self) -> bool:
        """False once its `ssh` has ended; one that will be cut with the next word is open still."""
        return self._process.poll() is None

    def ask(self, header: dict[str, Any], data: bytes, wait_s: float) -> tuple[dict[str, Any], bytes]:
        deadline = time.monotonic() + wait_s
        self._write(json.dumps({**header, "size": len(data)}).encode() + b"\n" + data, deadline)
        answer: dict[str, Any] = parse_json(self._read_line(deadline))
        return answer, self._read_bytes(answer["size"], deadline)

    def close(self) -> None:
        """End this `ssh`; the agent over there sees the end of its input and leaves."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()
        self._complaints.close()

    def _await_word(self, deadline: float) -> str:
        """What follows the nonce on its line; what comes before is what the login had to say."""
        passed = 0
        while True:
            line = self._read_line(deadline)
            passed += len(line)
            if self._nonce.encode() in line:
                return line.rpartition(self._nonce.encode())[2].decode("ascii", "replace").strip()
            if passed > _MOST_NOISE:
                raise Unreachable(
                    f"the login on {self._login.host} prints without end",
                    hint=f"see what `ssh {self._login.host} true` prints; ~/.bashrc there should be silent",
                )

    def _read_line(self, deadline: float) -> bytes:
        while b"\n" not in self._held:
            self._held += self._read_some(deadline)
        line, _, self._held = self._held.partition(b"\n")
        return line

    def _read_bytes(self, size: int, deadline: float) -> bytes:
        pieces, missing = [self._held[:size]], size - len(self._held)
        self._held = self._held[size:]
        while missing > 0:
            piece = self._read_some(deadline)
            pieces.append(piece[:missing])
            self._held = piece[missing:]
            missing -= len(piece)
        return b"".join(pieces)

    def _read_some(self, deadline: float) -> bytes:
        stream = self._process.stdout
        assert stream is not None
        if not select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise Unreachable(
                f"{self._login.host} did not answer in time", hint=f"`ssh {self._login.host} true`"
            )
        data = os.read(stream.fileno(), _PIECE)
        if not data:
            raise self._cut()
        return data

    def _write(self, data: bytes, deadline: float) -> None:
        stream = self._process.stdin
        assert stream is not None
        view = memoryview(data)
        os.set_blocking(stream.fileno(), False)
        while view:
            if not select.select([], [stream], [], max(0.0, deadline - time.monotonic()))[1]:
                raise Unreachable(f"{self._login.host} takes no data", hint=f"`ssh {self._login.host} true`")
            try:
                view = view[os.write(stream.fileno(), view) :]
            except BrokenPipeError:
                raise self._cut() from None

    def _cut(self) -> Unreachable:
        from gofer.transport.ssh_words import explain

        self._process.wait()
        self._complaints.seek(0)
        words = self._complaints.read(1 << 16).decode("utf-8", "replace")
        return explain(self._login.host, self._process.returncode, words)
