"""A proxy between a client and an HTTP server that can be slow, cut connections, refuse and truncate.

With `Tls` it speaks TLS to both sides. It counts requests and bytes. Inside a test it runs in a thread of the
test's process; where the client's own speed is measured it runs beside it: `python -m services.proxy
UPSTREAM_PORT LATENCY_S` prints its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_PIECE = 1 << 18
_RESET = struct.pack("ii", 1, 0)


class Request(NamedTuple):
    """A request as the proxy saw its head; `number` counts from 0, `peer` is the port of the client."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    size: int
    peer: int = 0


class Fault(NamedTuple):
    """What happens to one request.

    `reset` cuts the connection before the server hears of it, `lost` after the server did the work but before
    the answer, `status` answers in the server's stead, `truncate` sends half the answer's body and closes,
    `drip` sends the body's first 4 KiB slowly, `stall` never answers, `slow` waits first, `hold` waits for
    `Proxy.let_go`.
    """

    kind: str
    status: int = 503
    retry_after: str | None = None
    body: bytes = b""
    seconds: float = 0.0


class Tls(NamedTuple):
    """The proxy's certificate for clients, and the authority it trusts for its server."""

    own: ssl.SSLContext
    server: ssl.SSLContext

    @classmethod
    def of(cls, chain: Path, key: Path, authority: Path) -> Tls:
        """With the server's own certificate, so that clients see no difference."""
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(chain, key)
        return cls(own, ssl.create_default_context(cafile=str(authority)))


Decide = Callable[[Request], Fault | None]


class Proxy:
    """The counters and the rule; `faults` may be replaced at any time, from any thread."""

    def __init__(
        self, upstream_port: int, latency_s: float = 0.0, port: int = 0, tls: Tls | None = None
    ) -> None:
        self._wanted_port = port
        self.tls = tls
        self.upstream_port = upstream_port
        self.latency_s = latency_s
        self.faults: Decide = lambda request: None
        self.port = 0
        self.requests: list[Request] = []
        self.bytes_up = 0
        self.bytes_down = 0
        self.injected = 0
        self.open_connections = 0
        self.most_connections = 0
        self._tasks: set[asyncio.Task[None] | None] = set()
        self.is_held = True

    def let_go(self) -> None:
        """Send all held answers, and hold no more. Any thread."""
        self.is_held = False

    def forget(self) -> None:
        """Count from nothing again."""
        self.requests, self.bytes_up, self.bytes_down, self.injected = [], 0, 0, 0

    async def serve(self) -> None:
        """Listens until cancelled."""
        here, own = ("127.0.0.1", self._wanted_port), self.tls.own if self.tls else None
        server = await asyncio.start_server(self._client, *here, limit=1 << 20, ssl=own)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            await server.serve_forever()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        self.most_connections = max(self.most_connections, self.open_connections)
        # Else it would be lost where a client under TLS goes without a word.
        self._tasks.add(task := asyncio.current_task())
        link = _Link(self, reader, writer)
        try:
            while await link.exchange():
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # either side left, or the test is over; the rest is closed below
        finally:
            self.open_connections -= 1
            self._tasks.discard(task)
            link.close()


class _Link:
    """One client's connection and the server's connection behind it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._up: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def close(self) -> None:
        self._writer.close()
        if self._up:
            self._up[1].close()

    async def exchange(self) -> bool:
        """One request and its answer; whether another may follow."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        headers = _headers(head)
        proxy = self._proxy
        size = int(headers.get("content-length", "0"))
        peer = self._writer.get_extra_info("peername")[1]
        request = Request(len(proxy.requests), method, path, headers, size, peer)
        proxy.requests.append(request)
        fault = proxy.faults(request)
        proxy.injected += fault is not None
        if proxy.latency_s:
            await asyncio.sleep(proxy.latency_s)
        if fault and fault.kind in ("reset", "status", "stall"):
            return await self._refuse(request, fault)
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        while fault and fault.kind == "hold" and proxy.is_held:
            await asyncio.sleep(0.02)
        return await self._forward(head, request, fault)

    async def _refuse(self, request: Request, fault: Fault) -> bool:
        if fault.kind == "reset":
            return self._reset()
        await self._relay(self._reader, None, request.size)
        if fault.kind == "stall":
            await asyncio.sleep(fault.seconds or 3600)
            return False
        lines = [f"HTTP/1.1 {fault.status} Injected", f"Content-Length: {len(fault.body)}"]
        if fault.retry_after is not None:
            lines.append(f"Retry-After: {fault.retry_after}")
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + fault.body)
        await self._writer.drain()
        return True

    def _reset(self) -> bool:
        sock: socket.socket | None = self._writer.get_extra_info("socket")
        if sock:  # the client may have gone meanwhile
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.transport.abort()
        return False

    async def _forward(self, head: bytes, request: Request, fault: Fault | None) -> bool:
        if self._up is None:
            tls, port = self._proxy.tls, self._proxy.upstream_port
            self._up = await asyncio.open_connection(
                "127.0.0.1", port, limit=1 << 20, ssl=tls.server if tls else None
            )
        reader, writer = self._up
        writer.write(head)
        if request.headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._proxy.bytes_up += await self._body(self._reader, writer, request.headers)
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        while answer.split(b" ", 2)[1] == b"100":
            answer = await reader.readuntil(b"\r\n\r\n")
        if fault and fault.kind == "lost":
            return self._reset()
        self._writer.write(answer)
        return await self._answer(answer, request, fault)

    async def _answer(self, head: bytes, request: Request, fault: Fault | None) -> bool:
        assert self._up
        reader, headers = self._up[0], _headers(head)
        status = int(head.split(b" ", 2)[1])
        if request.method == "HEAD" or status in (204, 304):
            headers = {"connection": headers.get("connection", "")}
        size = int(headers.get("content-length", "0"))
        if fault and fault.kind == "truncate":
            await self._relay(reader, self._writer, size // 2)
            await self._writer.drain()
            return False
        if fault and fault.kind == "drip":
            size -= await self._drip(reader, min(size, 4096), fault.seconds)
            headers = {**headers, "content-length": str(size)}
        self._proxy.bytes_down += await self._body(reader, self._writer, headers)
        await self._writer.drain()
        return headers.get("connection", "").lower() != "close"

    async def _drip(self, reader: asyncio.StreamReader, size: int, seconds: float) -> int:
        drops = 8
        data = await reader.readexactly(size)
        for at in range(drops):
            self._writer.write(data[size * at // drops : size * (at + 1) // drops])
            await self._writer.drain()
            await asyncio.sleep(seconds / drops)
        return size

    async def _body(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, headers: dict[str, str]
    ) -> int:
        if "chunked" not in headers.get("transfer-encoding", "").lower():
            return await self._relay(source, sink, int(headers.get("content-length", "0")))
        total = 0
        while True:
            line = await source.readuntil(b"\r\n")
            sink.write(line)
            size = int(line.split(b";")[0], 16)
            total += await self._relay(source, sink, size) if size else 0
            sink.write(await source.readuntil(b"\r\n"))
            if not size:
                return total

    async def _relay(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter | None, size: int) -> int:
        left = size
        while left:
            data = await source.read(min(left, _PIECE))
            if not data:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(data)
            if sink:
                sink.write(data)
                await sink.drain()
        return size


def _headers(head: bytes) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in head.decode("latin-1").split("\r\n")[1:] if ":" in line)
    return {name.strip().lower(): value.strip() for name, value in pairs}


@contextlib.contextmanager
def proxied(
    upstream_port: int, latency_s: float = 0.0, *, port: int = 0, tls: Tls | None = None
) -> Iterator[Proxy]:
    """A proxy in a thread of this process, listening on `proxy.port`."""
    proxy = Proxy(upstream_port, latency_s, port, tls)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_run, args=[loop, proxy], daemon=True)
    thread.start()
    while not proxy.port:
        assert thread.is_alive(), "the proxy could not listen"
        threading.Event().wait(0.005)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(_stop, loop)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop, proxy: Proxy) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(proxy.serve())
    loop.run_until_complete(_cancel_rest())
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()


async def _cancel_rest() -> None:
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def _main(upstream_port: int, latency_s: float) -> None:
    proxy = Proxy(upstream_port, latency_s)
    serving = asyncio.create_task(proxy.serve())
    while not proxy.port:
        await asyncio.sleep(0.01)
    print(proxy.port, flush=True)
    await serving


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), float(sys.argv[2])))
