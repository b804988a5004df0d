"""Ports that are free on this machine, for servers that cannot choose one themselves."""

from __future__ import annotations

import random
import socket

# Below what the kernel hands out for outgoing connections: those come and go between choosing and listening.
_FIRST, _LAST = 20_000, 32_000


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listened on a moment ago, on any address."""
    chosen: list[int] = []
    for port in random.sample(range(_FIRST, _LAST), 1000):
        if len(chosen) == count:
            break
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        chosen.append(port)
    return chosen
