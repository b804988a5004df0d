"""The rendezvous of nodes on several machines with queues of their own: files in the folder of the run.

    runs/<id>/attempts/<attempt>/node-<node>/ready.json       the node is there
    runs/<id>/attempts/<attempt>/node-<node>/prepared.json    `PREPARED`
    runs/<id>/attempts/<attempt>/node-<node>/exit.json        `EXIT`, which the runner has written

A node that waits changes its file `ready.json` again and again. So the others know that it is alive, even
when the clocks of the machines differ. No node starts before all are there. A node that waits in vain gives
its resources back and tries again later, so that two runs cannot wait for each other's machines for ever.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any, Mapping

from gofer.core import files, run_layout
from gofer.core.launch import NodePlace
from gofer.core.sleep import pause
from gofer.core.states import State
from gofer.node.rendezvous.base import EXIT, Membership, Rendezvous, free_port, own_address
from gofer.node.watch import Watch

_READY = "ready"
_BEAT_S = 0.3
# A shared file system shows a change to other machines within this time.
_SILENT_S = 15.0
_PATIENCE_S = 60.0
_RETREAT_S = 6.0


class RunFolderMessages(Rendezvous):
    """Messages in the run's folder: one file for each message in the folder of its node. All nodes must see
    the store as a folder.
    """

    def __init__(self, store: str, place: NodePlace, watch: Watch) -> None:
        super().__init__(place.node, place.nodes)
        self._store = store
        self._place = place
        self._watch = watch

    def publish(self, message: str, value: Mapping[str, Any]) -> None:
        files.write_whole(self._path(message, self.node), files.encode(value))

    def read(self, message: str, node: int) -> dict[str, Any] | None:
        return files.read_json(self._path(message, node))

    def _has_started(self, node: int) -> bool:
        """Whether the node has started or ended its share."""
        try:
            names = os.listdir(self._folder(node))
        except FileNotFoundError:
            return False
        return any(name == run_layout.EXIT or name.startswith("rank-") for name in names)

    def _folder(self, node: int) -> str:
        return os.path.join(self._store, run_layout.node_key(self._place.run_id, self._place.attempt, node))

    def _path(self, message: str, node: int) -> str:
        return os.path.join(self._folder(node), f"{message}.json")


class FolderRendezvous(RunFolderMessages):
    """The rendezvous of nodes on several machines. Every machine has a supervisor of its own, so each node
    looks for failures of the others itself.
    """

    watch_interval_s = 1.0

    def __init__(self, store: str, place: NodePlace, watch: Watch) -> None:
        super().__init__(store, place, watch)
        self._port = free_port()
        self._beats = 0
        self._first: dict[int, int] = {}
        self._moved: dict[int, tuple[int, float]] = {}

    def join(self) -> Membership | None:
        """Wait for all nodes. None when not all arrived, or when the run is stopped. Blocks for about a
        minute at most.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            self._beat()
            if all(self._is_there(node) for node in self.others):
                return self._complete()
            if self._watch.cause is not None or time.monotonic() > deadline:
                break
            pause(_BEAT_S)
        return self._withdraw()

    def watch(self) -> str | None:
        """Name a node that has ended without success."""
        for node, record in self.peers(EXIT).items():
            if record["state"] != State.SUCCEEDED:
                return f"node {node} is {record['state']}"
        return None

    def _is_prepared(self, node: int) -> bool:
        """Whether the node is prepared, or has ended. `watch` finds out how it ended."""
        return super()._is_prepared(node) or self.has_ended(node)

    def _withdraw(self) -> Membership | None:
        """First remove this node's file, then wait whether another node has already started because it saw
        the file. If so, start as well.
        """
        files.remove(self._path(_READY, self.node))
        until = time.monotonic() + _RETREAT_S
        while time.monotonic() < until and self._watch.cause is None:
            if any(self._has_started(node) for node in self.others):
                return self._complete()
            pause(_BEAT_S)
        return None

    def _beat(self, *, met: bool = False) -> None:
        self._beats += 1
        facts: dict[str, Any] = {"beat": self._beats, "met": met, "port": self._port}
        facts.update(host=os.uname().nodename, address=own_address())
        self.publish(_READY, facts)

    def _is_there(self, node: int) -> bool:
        """Whether a node is there: it has started, or it has seen all others, or its file is still
        changing.
        """
        if self._has_started(node):
            return True
        found = self.read(_READY, node)
        if found is None or found["met"]:
            return found is not None
        beat = int(found["beat"])
        known, since = self._moved.get(node, (self._first.setdefault(node, beat), 0.0))
        if beat != known:
            since = time.monotonic()
            self._moved[node] = (beat, since)
        return since > 0.0 and time.monotonic() - since < _SILENT_S

    def _complete(self) -> Membership:
        self._beat(met=True)
        facts = [self.read(_READY, node) or {} for node in range(self._place.nodes)]
        hosts = [_reachable(one) for one in facts]
        self.membership = Membership(hosts, int(facts[0].get("port", self._port)))
        return self.membership


def _reachable(facts: dict[str, Any]) -> str:
    """The name of a host if it can be resolved on this machine, else its address."""
    name, address = str(facts.get("host", "")), str(facts.get("address", "127.0.0.1"))
    try:
        found = socket.gethostbyname(name)
    except OSError:
        return address
    return name if not found.startswith("127.") or name == os.uname().nodename else address
