"""What every rendezvous offers; the package's docstring has the contract."""

from __future__ import annotations

import abc
import socket
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

# Messages of a node to the other nodes of its attempt.
EXIT = "exit"  # its exit record: how its share of the attempt ended
PREPARED = "prepared"  # its code, folders and packages are ready

_ONLY_GENERATION = 1


class Membership(NamedTuple):
    """The nodes of one generation: their hosts in the order of their numbers, and a port that is free on
    the first.
    """

    hosts: List[str]
    port: int
    generation: int = _ONLY_GENERATION


class Rendezvous(abc.ABC):
    """One node's part in the rendezvous of its run. Main thread only.

    `others` are the numbers of the other nodes. `membership` is what the last `join` returned.
    """

    # How often the runner calls `watch` while ranks run; None where something else stops this node when
    # another node has failed.
    watch_interval_s: Optional[float] = None

    def __init__(self, node: int, nodes: int) -> None:
        self.node = node
        self.others = [one for one in range(nodes) if one != node]
        self.membership: Optional[Membership] = None

    @abc.abstractmethod
    def join(self) -> Optional[Membership]:
        """Wait until all nodes are there. None when this node must not start: nodes are missing, the run is
        stopped, or the run is over.
        """

    @abc.abstractmethod
    def publish(self, message: str, value: Mapping[str, Any]) -> None:
        """Show the other nodes a message of this node. It replaces this node's last message of that name."""

    @abc.abstractmethod
    def read(self, message: str, node: int) -> Optional[Dict[str, Any]]:
        """The last message of that name that the node has published; None when there is none."""

    def peers(self, message: str) -> Dict[int, Dict[str, Any]]:
        """What the other nodes have published under that name, by node."""
        found = {node: self.read(message, node) for node in self.others}
        return {node: value for node, value in found.items() if value is not None}

    def has_ended(self, node: int) -> bool:
        """Whether the node has ended its share of the attempt."""
        return self.read(EXIT, node) is not None

    def watch(self) -> Optional[str]:
        """Why the ranks of this node cannot continue, as a phrase: another node has failed or is gone. None
        while they can.
        """
        return None

    def leave(self) -> None:
        """End the membership. Where other nodes may still need this node, first wait until none does."""
        self.membership = None

    def wait_until_prepared(self, keep_on: Callable[[int], bool]) -> bool:
        """Publish that this node is prepared. On the first node, wait until all are: its command may use the
        others at once. `keep_on(-1)` waits a moment; False when it returns False.
        """
        self.publish(PREPARED, {})
        left = self.others if self.node == 0 else []
        while left:
            left = [node for node in left if not self._is_prepared(node)]
            if left and not keep_on(-1):
                return False
        return True

    def _is_prepared(self, node: int) -> bool:
        return self.read(PREPARED, node) is not None


def own_address() -> str:
    """The address at which other machines reach this one. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def free_port() -> int:
    """A port that is free now, on all addresses of this machine."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
