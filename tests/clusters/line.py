"""Lines that can be disturbed while something talks over them, and the way to order it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from clusters.cells import RELAY, Cell, first_line, spawn

_TIMEOUT_S = 60.0
FOREVER = -1


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a connection.

    refuse: it is reset before a byte has passed. drop: it is reset after `after_bytes`. truncate: it is
    closed properly after `after_bytes`. stall: nothing passes after `after_bytes`, and the connection stays
    open until the fault is cleared. delay: each piece waits `seconds`. `side` says which bytes count: `up`
    goes to the server.
    """

    kind: Literal["refuse", "drop", "truncate", "stall", "delay"]
    after_bytes: int = 0
    side: Literal["up", "down", "both"] = "both"
    seconds: float = 0.0


class Counts(NamedTuple):
    """Since the line was opened, but for `open`: how many connections there are now."""

    connections: int
    up: int
    down: int
    faults: int
    open: int


class Place(NamedTuple):
    """Where a line begins or ends; without a wire, on the network of the caller."""

    wire: Cell | None
    address: str
    port: int

    def words(self) -> list[str | int]:
        return [f"/proc/{self.wire.pid}/ns/net" if self.wire else "", self.address, self.port]


@dataclass(frozen=True)
class Line:
    """A running line. `port` is where it listens."""

    port: int
    control: Path

    def set(self, fault: Fault, *, times: int = FOREVER, now: bool = False) -> Counts:
        """Spoil the next `times` connections, and with `now` those that are open too, counting from now."""
        return self._order({"fault": asdict(fault), "times": times, "now": now})

    def clear(self) -> Counts:
        """No more faults, and flow again. Idempotent."""
        return self._order({"fault": None, "times": 0, "now": True, "flow": True})

    def cut(self) -> Counts:
        """Reset every connection that is open; new ones are welcome."""
        return self._order({"cut": True})

    def pause(self) -> Counts:
        """A pulled cable: nothing passes, nothing is closed, until `clear`."""
        return self._order({"flow": False})

    def counts(self) -> Counts:
        return self._order({})

    def _order(self, order: dict[str, object]) -> Counts:
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(_TIMEOUT_S)
            control.connect(str(self.control))
            control.sendall(json.dumps(order).encode() + b"\n")
            with control.makefile("rb") as answer:
                return Counts(**json.loads(answer.readline()))


def open_line(folder: Path, name: str, listen: Place, connect: Place, *, tied: bool) -> Line:
    """Blocks until the line listens; port 0 lets it choose. `cells.sweep` ends it."""
    control, log = folder / "lines" / name, folder / "logs" / f"{name}-line.out"
    for path in (control, log):
        path.parent.mkdir(parents=True, exist_ok=True)
    way = {"listen": listen.words(), "connect": connect.words(), "control": str(control)}
    with open(log, "ab") as errors:
        argv = [sys.executable, "-I", RELAY, str(folder), name, json.dumps(way)]
        child = spawn(argv, stdout=subprocess.PIPE, stderr=errors, tied=tied)
    return Line(int(first_line(child, f"line {name}", log)), control)
