"""A command in a container of a pod, as `kubectl exec` starts it: its stdin, stdout, stderr and exit status.

The API server offers pods/exec as a WebSocket. Each message begins with the number of its channel: 0 to 2 are
stdin, stdout and stderr, 3 is the status at the end, 4 the size of the terminal. Version 5 of the protocol
adds 255, which closes a channel: only with it does the command see the end of stdin.

One thread moves all bytes, over a connection that never blocks: a command that waits until its output is read
must not keep its input from being sent. The package `websockets` reads and writes the frames.
"""

from __future__ import annotations

import json
import os
import selectors
import ssl
import stat
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from gofer.errors import CredentialError, Unreachable
from gofer.objects.client import HttpRequest
from gofer.objects.wire import Wire
from gofer.transport.kubernetes.client import refusal
from gofer.transport.kubernetes.credentials import KubeSigner

if TYPE_CHECKING:
    import socket

    from gofer.transport.kubernetes.kubeconfig import KubeContext

# The exit status when the command could not be started or the connection was lost, as that of ssh.
LOST = 255
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")

_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_OPEN_TIMEOUT_S = 30.0
# How long to wait for the server to close the connection after the status of the command.
_CLOSING_S = 2.0
_PIECE = 1 << 15
_RECEIVED = 1 << 16
_MOST_UNSENT = 1 << 18
_MOST_UNWRITTEN = 1 << 20
# A pipe or terminal that is ready takes this much without blocking.
_WRITTEN_AT_ONCE = 4096


class ExecRequest(NamedTuple):
    """What to run. With `terminal`, the command gets a terminal, and its stderr is part of stdout."""

    namespace: str
    pod: str
    container: str
    command: tuple[str, ...]
    terminal: bool = False

    @property
    def target(self) -> str:
        """The path and query of the request."""
        options = {"container": self.container, "stdin": "true", "stdout": "true"}
        options["tty" if self.terminal else "stderr"] = "true"
        words = [*options.items(), *(("command", word) for word in self.command)]
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/exec?{urlencode(words)}"


class ExecEnd(NamedTuple):
    """How the command ended. `problem` says why its own status is not known; empty when it is."""

    status: int
    problem: str = ""


class Beat(NamedTuple):
    """A ping every `ping_s`, since proxies and load balancers close a connection that is silent for one to
    five minutes. A server that sends nothing for `silence_s`, not even the answer to a ping, is lost.
    """

    ping_s: float = 20.0
    silence_s: float = 60.0


_BEAT = Beat()


class LocalStreams(NamedTuple):
    """The file descriptors on this side. `size` is the size of the terminal, columns and lines, and `resized`
    is readable whenever it has changed.
    """

    stdin: int = 0
    stdout: int = 1
    stderr: int = 2
    size: Callable[[], tuple[int, int]] | None = None
    resized: int | None = None


def run_in_pod(
    context: KubeContext,
    request: ExecRequest,
    files: LocalStreams,
    *,
    kept: Path | None = None,
    protocols: Sequence[str] = PROTOCOLS,
    beat: Beat = _BEAT,
) -> ExecEnd:
    """Run the command to its end. Blocking. `kept` is as for KubeClient.

    Raises KubeApiError when the server refuses, Unreachable when it does not answer, CredentialError when it
    does not accept the credential, and BrokenPipeError when nobody reads stdout or stderr any more.
    """
    sock, protocol = _open(context, request, kept, protocols)
    try:
        return _Exchange(sock, protocol, files, beat).run()
    finally:
        sock.close()


def _open(
    context: KubeContext, request: ExecRequest, kept: Path | None, protocols: Sequence[str]
) -> tuple[socket.socket, ClientProtocol]:
    """A connection on which the server runs the command."""
    signer = KubeSigner(context, kept)
    try:
        return _shake_hands(context, signer, request, protocols)
    except _CredentialRefused:
        # A token can be revoked before its end.
        if signer.renew():
            try:
                return _shake_hands(context, signer, request, protocols)
            except _CredentialRefused:
                pass
        raise CredentialError(
            f"{context.cluster.server} does not accept the credential of the context `{context.name}`",
            hint=f"`kubectl --context {context.name} get namespaces` should work",
        ) from None
    except OSError as error:
        raise Unreachable(
            f"the Kubernetes cluster at {context.cluster.server} cannot be reached: {error}",
            hint="check its address, your network and `proxy-url`: `kubectl cluster-info`",
        ) from error


class _CredentialRefused(Exception):
    """The server answered 401."""


def _shake_hands(
    context: KubeContext, signer: KubeSigner, request: ExecRequest, protocols: Sequence[str]
) -> tuple[socket.socket, ClientProtocol]:
    cluster, user = context.cluster, context.user
    parts = urlsplit(cluster.server)
    target = parts.path.rstrip("/") + request.target
    _, headers = signer.sign(HttpRequest("GET", target, headers={"User-Agent": "gofer"}))
    protocol = _protocol(cluster.server, target, protocols)
    asked = protocol.connect()
    for name, value in (*headers.items(), *user.impersonation):
        asked.headers[name] = value  # the same name again adds a value
    protocol.send_request(asked)
    sock = Wire(cluster.server, tls=signer.tls, proxy_url=cluster.proxy_url).open_tunnel()
    try:
        sock.settimeout(_OPEN_TIMEOUT_S)
        for data in protocol.data_to_send():
            sock.sendall(data)
        while protocol.state == State.CONNECTING and protocol.handshake_exc is None:
            if piece := sock.recv(_RECEIVED):
                protocol.receive_data(piece)
            else:
                protocol.receive_eof()
        if protocol.handshake_exc is not None:
            raise _explained(protocol.handshake_exc)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock, protocol


def _protocol(server: str, target: str, protocols: Sequence[str]) -> ClientProtocol:
    parts = urlsplit(server)
    is_secure = parts.scheme == "https"
    path, _, query = target.partition("?")
    uri = WebSocketURI(is_secure, parts.hostname or "", parts.port or (443 if is_secure else 80), path, query)
    return ClientProtocol(uri, subprotocols=[Subprotocol(word) for word in protocols], max_size=None)


def _explained(error: Exception) -> Exception:
    """The error for an answer that opens no WebSocket."""
    if not isinstance(error, InvalidStatus):
        return OSError(str(error.__cause__ or error) or "the connection was lost")
    answer = error.response
    if answer.status_code == 401:
        return _CredentialRefused()
    return refusal(answer.status_code, _json(bytes(answer.body or b"")))


class _Exchange:
    """The bytes of one command, until it ends. For one thread."""

    def __init__(
        self, sock: socket.socket, protocol: ClientProtocol, files: LocalStreams, beat: Beat
    ) -> None:
        self._beat = beat
        self._sock = sock
        self._protocol = protocol
        self._files = files
        self._has_half_close = protocol.subprotocol == PROTOCOLS[0]
        self._unsent: deque[bytes] = deque()
        self._outputs = {_STDOUT: _Output(files.stdout), _STDERR: _Output(files.stderr)}
        self._is_reading_stdin = True
        self._is_open = True
        self._end: ExecEnd | None = None
        self._ended_at = 0.0
        self._problem = "the connection to the pod was lost"
        self._heard_at = self._pinged_at = time.monotonic()

    def run(self) -> ExecEnd:
        self._send_size()
        with selectors.PollSelector() as selector:
            # The answer of the server may have come with the first frames.
            self._take_frames()
            while not self._is_over():
                self._step(selector)
        return self._end or ExecEnd(LOST, self._problem)

    def _step(self, selector: selectors.PollSelector) -> None:
        """Wait until something can be moved, and move it."""
        wanted = self._wanted()
        _choose(selector, wanted)
        has_held = self._sock in wanted and self._may_read() and _pending(self._sock) > 0
        ready = {key.fileobj: events for key, events in selector.select(0.0 if has_held else self._pause_s())}
        for output in self._outputs.values():
            if output.held and ready.get(output.fd, 0) & selectors.EVENT_WRITE:
                output.write()
        if self._is_reading_stdin and ready.get(self._files.stdin, 0) & selectors.EVENT_READ:
            self._read_stdin()
        if self._files.resized in ready and self._files.resized is not None:
            os.read(self._files.resized, _PIECE)
            self._send_size()
        if has_held or ready.get(self._sock, 0) & selectors.EVENT_READ:
            self._receive()
        self._keep_alive()
        self._send()

    def _wanted(self) -> dict[Any, int]:
        """The files to wait for, and what for."""
        wanted: dict[Any, int] = {out.fd: selectors.EVENT_WRITE for out in self._outputs.values() if out.held}
        if self._is_open:
            reads = selectors.EVENT_READ if self._may_read() else 0
            writes = selectors.EVENT_WRITE if self._unsent else 0
            if reads | writes:
                wanted[self._sock] = reads | writes
            if self._is_reading_stdin and sum(map(len, self._unsent)) < _MOST_UNSENT:
                # stdin and stdout may be one socket
                wanted[self._files.stdin] = wanted.get(self._files.stdin, 0) | selectors.EVENT_READ
            if self._files.resized is not None:
                wanted[self._files.resized] = selectors.EVENT_READ
        return wanted

    def _may_read(self) -> bool:
        """Whether this side has room: a slow reader of stdout slows the command down, as a pipe does."""
        return sum(output.size for output in self._outputs.values()) < _MOST_UNWRITTEN

    def _pause_s(self) -> float:
        now = time.monotonic()
        if self._end is not None:
            return max(0.0, self._ended_at + _CLOSING_S - now)
        return max(0.0, self._pinged_at + self._beat.ping_s - now)

    def _is_over(self) -> bool:
        if any(output.held for output in self._outputs.values()):
            return False
        if self._end is not None and time.monotonic() > self._ended_at + _CLOSING_S:
            return True
        return not self._is_open

    def _keep_alive(self) -> None:
        """Ping the server, or give it up."""
        now = time.monotonic()
        if not self._may_read():
            self._heard_at = now  # answers wait behind the output that nobody reads
        if self._is_open and now - self._heard_at > self._beat.silence_s:
            self._problem = f"the server has sent nothing for {self._beat.silence_s:.0f} s"
            self._is_open = False
        if (
            self._is_open
            and self._protocol.state == State.OPEN
            and now - self._pinged_at >= self._beat.ping_s
        ):
            self._pinged_at = now
            self._protocol.send_ping(b"")

    def _read_stdin(self) -> None:
        try:
            data = os.read(self._files.stdin, _PIECE)
        except OSError:  # the terminal is gone
            data = b""
        if data:
            self._put(_STDIN, data)
            return
        self._is_reading_stdin = False
        if self._has_half_close:
            self._put(_CLOSE, bytes([_STDIN]))

    def _send_size(self) -> None:
        if self._files.size is not None:
            columns, lines = self._files.size()
            self._put(_RESIZE, json.dumps({"Width": columns, "Height": lines}).encode())

    def _put(self, channel: int, data: bytes) -> None:
        if self._protocol.state == State.OPEN:
            self._protocol.send_binary(bytes([channel]) + data)

    def _send(self) -> None:
        """Send what the connection takes now."""
        self._unsent.extend(data for data in self._protocol.data_to_send() if data)
        try:
            while self._unsent and self._is_open:
                sent = self._sock.send(self._unsent[0])
                rest = self._unsent.popleft()[sent:]
                if rest:
                    self._unsent.appendleft(rest)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            # The status may have arrived before the connection broke: what was received is still read.
            self._unsent.clear()
            self._is_reading_stdin = False
            self._problem = f"the connection to the pod was lost: {error.strerror or error}"

    def _receive(self) -> None:
        try:
            piece = self._sock.recv(_RECEIVED)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self._problem = f"the connection to the pod was lost: {error.strerror or error}"
            piece = b""
        self._heard_at = time.monotonic()
        if piece:
            self._protocol.receive_data(piece)
        else:
            self._protocol.receive_eof()
            self._is_open = False
        self._take_frames()

    def _take_frames(self) -> None:
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.TEXT) and event.data:
                self._take(event.data[0], bytes(event.data[1:]))
        if self._protocol.state in (State.CLOSING, State.CLOSED):
            self._send()  # the answer to the server's close
            self._is_open = False

    def _take(self, channel: int, data: bytes) -> None:
        if channel in self._outputs and data:
            self._outputs[channel].put(data)
        elif channel == _STATUS and data:
            self._end, self._ended_at = _read_status(data), time.monotonic()
            self._is_reading_stdin = False


class _Output:
    """A local file for output, and what is still to be written to it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.held: deque[bytes] = deque()
        self.size = 0
        self._at_once = _MOST_UNWRITTEN if stat.S_ISREG(os.fstat(fd).st_mode) else _WRITTEN_AT_ONCE

    def put(self, data: bytes) -> None:
        self.held.append(data)
        self.size += len(data)

    def write(self) -> None:
        """Write once. BrokenPipeError when nobody reads."""
        first = self.held.popleft()
        try:
            written = os.write(self.fd, first[: self._at_once])
        except BlockingIOError:  # another program made the terminal non-blocking
            written = 0
        self.size -= written
        if written < len(first):
            self.held.appendleft(first[written:])


def _choose(selector: selectors.PollSelector, wanted: dict[Any, int]) -> None:
    """Let the selector wait for exactly these files."""
    present = {key.fileobj: key.events for key in selector.get_map().values()}
    for file in present.keys() - wanted.keys():
        selector.unregister(file)
    for file, events in wanted.items():
        if file not in present:
            selector.register(file, events)
        elif present[file] != events:
            selector.modify(file, events)


def _pending(sock: socket.socket) -> int:
    """Bytes that TLS has already taken from the connection, for which the system does not wake anybody."""
    return sock.pending() if isinstance(sock, ssl.SSLSocket) else 0


def _read_status(data: bytes) -> ExecEnd:
    document = _json(data)
    if document.get("status") == "Success":
        return ExecEnd(0)
    details = document.get("details") or {}
    for cause in details.get("causes") or () if document.get("reason") == "NonZeroExitCode" else ():
        word = str(cause.get("message", ""))
        if cause.get("reason") == "ExitCode" and word.isdecimal():
            return ExecEnd(int(word))
    return ExecEnd(LOST, str(document.get("message") or "the container gives no exit status"))


def _json(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError:
        return {"message": data.decode("utf-8", "replace").strip()[:300]}
    return document if isinstance(document, dict) else {}
