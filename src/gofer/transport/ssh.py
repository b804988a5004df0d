"""A machine reached over SSH, by the user's own `ssh`.

The user's settings for `ssh HOST` apply: keys, jump hosts, names in ~/.ssh/config, known hosts. Commands of
gofer share a connection (gofer.transport.shared_connection), so that most of them need one round trip. gofer
installs the agent when the machine does not have it. Whatever a login prints before the agent is ignored.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from gofer.core import private_folder
from gofer.core.json_text import parse_json
from gofer.errors import Unreachable
from gofer.remote.calls import RemoteApi
from gofer.text import quote_command
from gofer.transport.activity import activity
from gofer.transport.bundle import NEEDED, READY, bootstrap_command, bundle
from gofer.transport.machine import CALL_S
from gofer.transport.shared_connection import (
    explain_failure,
    find_open,
    note_use,
    quiet_environment,
    sockets_folder,
    ssh_argv,
)
from gofer.transport.ssh_errors import LoginNeeded, login_command, logout_command

if TYPE_CHECKING:
    import subprocess

    from gofer.remote.api import FilesApi, KeptItemsApi, QueueApi, SlurmApi


_GREETING_S = 60.0
_REFUSED_S = 60.0
_MOST_NOISE = 4 << 20
_PIECE = 1 << 18


class Login(NamedTuple):
    """How to reach a machine: the host for `ssh`, the Python to run there, and gofer's folder there."""

    host: str
    python: str = "python3"
    folder: str = "~/.gofer"


class SshMachine:
    """The machine that `ssh HOST` reaches. Calls block; any thread may call."""

    def __init__(self, login: Login, *, sockets: Path) -> None:
        # A target that reaches the machine, for the hints of errors; "" while none is known.
        self.target = ""
        self._login = login
        self._sockets = sockets
        self._line: _Line | None = None
        # Set while the machine asks for a login, and when it said so.
        self._refusal: tuple[LoginNeeded, float] | None = None
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        return self._login.host

    def queue(self, queue_home: str) -> QueueApi:
        return cast("QueueApi", self._api("queue", [queue_home], CALL_S))

    def slurm(self, folder: str, *, wait_s: float = CALL_S) -> SlurmApi:
        return cast("SlurmApi", self._api("slurm", [folder], wait_s))

    def files(self, root: str, *, wait_s: float = CALL_S) -> FilesApi:
        return cast("FilesApi", self._api("files", [root], wait_s))

    def kept_items(
        self, queue_home: str | None, folder: str | None, *, wait_s: float = CALL_S
    ) -> KeptItemsApi:
        return cast("KeptItemsApi", self._api("kept", [queue_home, folder], wait_s))

    def _api(self, name: str, where: list[str | None], wait_s: float) -> RemoteApi:
        return RemoteApi(name, where, partial(self._send, wait_s))

    def _send(self, wait_s: float, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        with self._lock:
            if self._line is not None and not self._line.is_open:
                self.close()  # the connection was lost while it was idle
            try:
                with activity(f"waiting for {self.name}"):
                    self._line = self._line or self._connect()
                    return self._line.ask(request, data, wait_s)
            except BaseException:
                # Otherwise the unread answer would be taken for the answer to the next call.
                self.close()
                raise

    def close(self) -> None:
        with self._lock:
            line, self._line = self._line, None
            if line is not None:
                line.close()

    def _connect(self) -> _Line:
        self._check_refusal()
        private_folder.make_missing(self._sockets)
        line = _Line(self._login, self._sockets, self.target)
        try:
            line.greet()
        except BaseException as error:
            line.close()
            if isinstance(error, LoginNeeded):
                self._refusal = (error, time.monotonic())
            raise
        self._refusal = None
        return line

    def _check_refusal(self) -> None:
        """Raise the last LoginNeeded again while no person has logged in since. Each connection would be a
        failed login on the machine, which may lock out a user with many of them.
        """
        if self._refusal is None:
            return
        error, since = self._refusal
        is_recent = time.monotonic() - since < _REFUSED_S
        if is_recent and find_open(self._login.host, self._sockets) is None:
            raise LoginNeeded(error.message, hint=error.hint)


def shell_argv(login: Login, words: Sequence[str], *, terminal: bool) -> list[str]:
    """The `ssh` command that runs `words` there unchanged, over the shared connection; exits as they do."""
    program, _, *rest = ssh_argv(login.host, sockets_folder(os.environ))
    # On a terminal, ssh says at the end that it closed its part of the shared connection, which is no news.
    how = ["-tt", "-o", "LogLevel=ERROR"] if terminal else ["-T"]
    return [program, *how, *rest, quote_command(words)]


_reached: dict[Login, SshMachine] = {}


def reach(login: Login, target: str = "") -> SshMachine:
    """The machine of a login. `target` is a target that reaches it, for what errors tell the person to type.

    The same login gives the same object, so that the process uses one connection.
    """
    if login not in _reached:
        _reached[login] = SshMachine(login, sockets=sockets_folder(os.environ))
    machine = _reached[login]
    machine.target = target or machine.target
    return machine


class _Line:
    """One `ssh` process, and the messages that go through it."""

    def __init__(self, login: Login, sockets: Path, target: str) -> None:
        import shlex
        import subprocess
        import tempfile

        self._login = login
        self._sockets = sockets
        self._target = target
        self._nonce = os.urandom(12).hex()
        # A file, not a pipe: the shared connection stays in the background and would keep the pipe open.
        self._complaints: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115
        command = bootstrap_command(login.python, login.folder, self._nonce)
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [*ssh_argv(login.host, sockets), shlex.join(command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                env=quiet_environment(os.environ),
                start_new_session=True,  # Ctrl-C must reach only gofer, which may still need the connection
                bufsize=0,
            )
        except OSError as error:
            raise Unreachable(
                f"`ssh` cannot be started: {error.strerror}", hint="install the OpenSSH client"
            ) from error
        self._held = b""

    def greet(self) -> None:
        """Wait until the agent answers, and send the agent if the machine does not have it."""

        deadline = time.monotonic() + _GREETING_S
        word = self._await_word(deadline)
        if word == NEEDED:
            data = bundle().data
            self._write(f"{len(data)}\n".encode() + data, deadline)
            word = self._await_word(deadline)
        if word != READY:
            raise Unreachable(
                f"{self._login.host} has Python {word}, but gofer needs 3.8 or newer",
                hint="set a newer Python in the target: `python: /path/to/python3`",
            )

    @property
    def is_open(self) -> bool:
        """Whether `ssh` still runs. A connection that fails on its next use counts as open."""
        return self._process.poll() is None

    def ask(self, header: dict[str, Any], data: bytes, wait_s: float) -> tuple[dict[str, Any], bytes]:
        deadline = time.monotonic() + wait_s
        self._write(json.dumps({**header, "size": len(data)}).encode() + b"\n" + data, deadline)
        answer: dict[str, Any] = parse_json(self._read_line(deadline))
        return answer, self._read_bytes(answer["size"], deadline)

    def close(self) -> None:
        """End this `ssh`; the agent on the machine then reads the end of its input and exits."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()
        self._complaints.close()
        note_use(self._login.host, self._sockets)

    def _await_word(self, deadline: float) -> str:
        """The word after the nonce. Lines before it are output of the login and are ignored."""
        passed = 0
        while True:
            line = self._read_line(deadline)
            passed += len(line)
            # The nonce is random, so no output of the login can be taken for the agent's greeting.
            if self._nonce.encode() in line:
                return line.rpartition(self._nonce.encode())[2].decode("ascii", "replace").strip()
            if passed > _MOST_NOISE:
                raise Unreachable(
                    f"the login on {self._login.host} prints too much",
                    hint=f"run `ssh {self._login.host} true`; ~/.bashrc there should print nothing",
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
            raise self._silent("did not answer in time")
        data = os.read(stream.fileno(), _PIECE)
        if not data:
            raise self._cut()
        return data

    def _write(self, data: bytes, deadline: float) -> None:
        stream = self._process.stdin
        assert stream is not None
        view = memoryview(data)
        # Non-blocking, so that a write to a machine that reads nothing ends at the deadline.
        os.set_blocking(stream.fileno(), False)
        while view:
            if not select.select([], [stream], [], max(0.0, deadline - time.monotonic()))[1]:
                raise self._silent("does not read the request")
            try:
                view = view[os.write(stream.fileno(), view) :]
            except BrokenPipeError:
                raise self._cut() from None

    def _silent(self, words: str) -> Unreachable:
        host = self._login.host
        if find_open(host, self._sockets) is None:
            return Unreachable(f"{host} {words}", hint=f"try `ssh {host} true`")
        # Only the end of a connection says that its network is gone, and that can take minutes.
        end, again = logout_command(host, self._target), login_command(host, self._target)
        return Unreachable(
            f"{host} {words} over the open connection",
            hint=f"after a change of the network, close the connection and open another: `{end} && {again}`",
        )

    def _cut(self) -> Unreachable:

        self._process.wait()
        self._complaints.seek(0)
        words = self._complaints.read(1 << 16).decode("utf-8", "replace")
        return explain_failure(
            self._login.host,
            self._process.returncode,
            words,
            sockets=self._sockets,
            target=self._target,
        )
