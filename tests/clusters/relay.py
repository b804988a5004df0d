"""A TCP line with faults: `python -I relay.py FOLDER NAME WAY`, one process a line.

WAY is JSON: `listen` and `connect`, each `[network, address, port]`, where network is a file under /proc that
names a network namespace, or empty for that of the caller; and `control`, the path of a Unix socket. Says its
port when it listens. The control socket takes one JSON object a connection, answers with the counts, and
closes.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

_PIECE = 32 * 1024
# Linger of no time: closing sends a reset instead of waiting for the peer.
_RESET = struct.pack("ii", 1, 0)
_CLONE_NEWNET = 0x40000000


class Connection:
    """One client and the server behind it. A fault counts bytes from the moment it was armed."""

    def __init__(self, relay: Relay, client: asyncio.StreamWriter) -> None:
        self.relay = relay
        self.client = client
        self.server: asyncio.StreamWriter | None = None
        self.fault: dict[str, Any] | None = None
        self.left = 0
        self.ended = False

    def arm(self, fault: dict[str, Any] | None) -> None:
        self.fault = fault
        self.left = fault["after_bytes"] if fault else 0

    def end(self, *, reset: bool) -> None:
        """Idempotent: the first call decides how both sides see the end."""
        if self.ended:
            return
        self.ended = True
        for writer in (self.client, self.server):
            if writer is None:
                continue
            if reset:
                sock: socket.socket = writer.get_extra_info("socket")
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()
            else:
                writer.close()

    async def pump(self, side: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_PIECE):
            await self.relay.flowing.wait()
            fault = self.fault
            if fault and fault["side"] in (side, "both"):
                data = await self.spoil(fault, data)
            self.relay.counts[side] += len(data)
            writer.write(data)
            await writer.drain()
            if fault and fault["kind"] in ("drop", "truncate") and self.left < 0:
                self.relay.counts["faults"] += 1
                self.end(reset=fault["kind"] == "drop")
                return
        with suppress(OSError):
            writer.write_eof()

    async def spoil(self, fault: dict[str, Any], data: bytes) -> bytes:
        """What of `data` may pass, after any delay. `left` below zero says that the fault has come."""
        if fault["kind"] == "delay":
            self.relay.counts["faults"] += 1
            await asyncio.sleep(fault["seconds"])
            return data
        passed = data[: max(self.left, 0)]
        if len(data) <= self.left:
            self.left -= len(data)
            return data
        self.left = -1
        if fault["kind"] == "stall":
            self.relay.counts["faults"] += 1
            await self.relay.cleared.wait()
            return data
        return passed


class Relay:
    """The line: its counts, its fault, and the connections that are open."""

    def __init__(self, connect: tuple[str, int]) -> None:
        self.connect = connect
        self.counts = {"connections": 0, "up": 0, "down": 0, "faults": 0}
        self.fault: dict[str, Any] | None = None
        self.times = 0
        self.open: set[Connection] = set()
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.cleared = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.counts["connections"] += 1
        connection = Connection(self, writer)
        connection.arm(self.take())
        self.open.add(connection)
        try:
            if connection.fault and connection.fault["kind"] == "refuse":
                self.counts["faults"] += 1
            else:
                await self.join(connection, reader)
        except OSError:
            pass  # either side left; both are closed below
        finally:
            self.open.discard(connection)
            connection.end(reset=True)

    async def join(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        await self.flowing.wait()
        server_reader, connection.server = await asyncio.open_connection(*self.connect)
        await asyncio.gather(
            connection.pump("up", reader, connection.server),
            connection.pump("down", server_reader, connection.client),
        )
        connection.end(reset=False)

    def take(self) -> dict[str, Any] | None:
        """The fault of a new connection; the last of a counted fault uses it up."""
        if self.fault is None or self.times == 0:
            return None
        self.times -= 1
        return self.fault

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        order = json.loads(await reader.readline())
        if "fault" in order:
            self.arm(order["fault"], order["times"], now=order["now"])
        if "flow" in order:
            (self.flowing.set if order["flow"] else self.flowing.clear)()
        if "cut" in order:
            for connection in list(self.open):
                connection.end(reset=True)
        writer.write(json.dumps({**self.counts, "open": len(self.open)}).encode() + b"\n")
        await writer.drain()
        writer.close()

    def arm(self, fault: dict[str, Any] | None, times: int, *, now: bool) -> None:
        self.fault, self.times = fault, times
        self.cleared.set()
        self.cleared = asyncio.Event()
        for connection in self.open if now or fault is None else ():
            connection.arm(fault)


def enter(network: str) -> None:
    """Sockets made from now on belong to that network."""
    if not network:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    with open(network) as space:
        if libc.setns(space.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), network)


async def main() -> None:
    way = json.loads(sys.argv[3])
    home = f"/proc/{os.getpid()}/ns/net"
    with open(home) as mine:
        back = f"/proc/self/fd/{mine.fileno()}"
        enter(way["listen"][0])
        listener = socket.create_server((way["listen"][1], way["listen"][2]), backlog=128)
        enter(way["connect"][0] or back)
    relay = Relay((way["connect"][1], way["connect"][2]))
    control = await asyncio.start_unix_server(relay.control, way["control"])
    server = await asyncio.start_server(relay.serve, sock=listener, limit=_PIECE)
    os.write(1, f"{listener.getsockname()[1]}\n".encode())
    os.close(1)
    await asyncio.gather(server.serve_forever(), control.serve_forever())


asyncio.run(main())
