"""Cables between wires: a switch with machines on it, and a plain link between two machines."""

from __future__ import annotations

import os
import random

from clusters.cells import Cell, call
from clusters.errors import ClusterError

BRIDGE = "br0"


def free_subnet() -> str:
    """The first three numbers of a private /24 network that this machine has no address in."""
    used = call("ip", "-4", "-o", "addr") + call("ip", "-4", "route")
    for _ in range(1000):
        subnet = f"10.{random.randrange(100, 250)}.{random.randrange(250)}."
        if subnet not in used:
            return subnet.rstrip(".")
    raise ClusterError("no free network in 10.100.0.0 to 10.249.249.255")


def free_network() -> str:
    """The first two numbers of a private /16 network that this machine has no address in."""
    used = call("ip", "-4", "-o", "addr") + call("ip", "-4", "route")
    for second in random.sample(range(1, 100), 99):
        if f"10.{second}." not in used:
            return f"10.{second}"
    raise ClusterError("no free network in 10.1.0.0 to 10.99.255.255")


def make_switch(switch: Cell, address: str) -> None:
    """`switch` becomes a machine with the address that others can be plugged into."""
    switch.call("ip", "link", "add", BRIDGE, "type", "bridge")
    switch.call("ip", "addr", "add", f"{address}/24", "dev", BRIDGE)
    switch.call("ip", "link", "set", BRIDGE, "up")


def plug(switch: Cell, machine: Cell, address: str) -> None:
    """A cable from the switch to the machine; its port at the switch has the machine's name."""
    _cable(switch, machine.name, machine.pid, "eth0")
    machine.call("ip", "addr", "add", f"{address}/24", "dev", "eth0")
    machine.call("ip", "link", "set", "eth0", "up")


def plug_in_caller(switch: Cell, interface: str, address: str) -> None:
    """A cable from the switch to the network of this process. It vanishes with the switch."""
    _cable(switch, "caller", os.getpid(), interface)
    call("ip", "addr", "add", f"{address}/24", "dev", interface)
    call("ip", "link", "set", interface, "up")


def set_port(switch: Cell, machine: str, *, up: bool) -> None:
    """Pull the machine's cable, or put it back. Idempotent."""
    switch.call("ip", "link", "set", machine, "up" if up else "down")


def link(one: Cell, one_address: str, two: Cell, two_address: str) -> None:
    """A cable between two machines and nobody else."""
    one.call("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(two.pid))
    for wire, address in ((one, one_address), (two, two_address)):
        wire.call("ip", "addr", "add", f"{address}/24", "dev", "eth0")
        wire.call("ip", "link", "set", "eth0", "up")


def _cable(switch: Cell, port: str, peer_pid: int, peer_interface: str) -> None:
    end = ("type", "veth", "peer", "name", peer_interface, "netns", str(peer_pid))
    switch.call("ip", "link", "add", port, *end)
    switch.call("ip", "link", "set", port, "master", BRIDGE, "up")
