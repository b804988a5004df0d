"""How the nodes of a run find and watch each other when they are on several machines with queues of their
own.

The nodes share only the run's folder. Each node keeps a file there that changes while it waits. So the others
know that it is alive, even when the clocks of the machines differ. No node starts before all are there. A
node that waits in vain gives its resources back and tries again later, so that two runs cannot wait for each
other's machines for ever.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any, Callable

from gofer.core import files, run_layout
from gofer.core.launch import NodePlace
from gofer.core.sleep import pause
from gofer.core.states import State
from gofer.node.watch import Watch

READY = "ready.json"
PREPARED = "prepared.json"
_BEAT_S = 0.3
# A shared file system shows a change to other machines within this time.
_SILENT_S = 15.0
_PATIENCE_S = 60.0
_RETREAT_S = 6.0
# A node whose folder has not changed for this long counts as gone; it writes a heartbeat every ten seconds.
_LOST_S = 90.0


def own_nodes(request: dict[str, Any]) -> list[int]:
    """The nodes of a run that are on this machine: all, unless it spans several."""
    nodes: list[int] | None = request.get("span")
    return list(range(request["layout"]["nodes"])) if nodes is None else nodes


class FolderRendezvous:
    """One node's part in the rendezvous of an attempt."""

    def __init__(self, store: str, place: NodePlace, watch: Watch) -> None:
        self._store = store
        self._place = place
        self._watch = watch
        self._port = _free_port()
        self._beats = 0
        self._first: dict[int, int] = {}
        self._moved: dict[int, tuple[int, float]] = {}

    def meet(self) -> NodePlace | None:
        """Wait for all nodes. The place with all host names and the master port; None when not all nodes
        arrived. Blocks for about a minute at most.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            self._beat()
            if all(self._is_there(node) for node in self._others):
                return self._complete_place()
            if self._watch.cause is not None or time.monotonic() > deadline:
                break
            pause(_BEAT_S)
        return self._retreat()

    @property
    def _others(self) -> list[int]:
        return [node for node in range(self._place.nodes) if node != self._place.node]

    def _retreat(self) -> NodePlace | None:
        """Withdraw: first remove this node's file, then wait whether another node has already started because
        it saw the file. If so, start as well.
        """
        files.remove(self._path(self._place.node))
        until = time.monotonic() + _RETREAT_S
        while time.monotonic() < until and self._watch.cause is None:
            if any(_has_started(self._folder(node)) for node in self._others):
                return self._complete_place()
            pause(_BEAT_S)
        return None

    def _beat(self, *, met: bool = False) -> None:
        self._beats += 1
        facts: dict[str, Any] = {"beat": self._beats, "met": met, "port": self._port}
        facts.update(host=os.uname().nodename, address=own_address())
        files.write_whole(self._path(self._place.node), files.encode(facts))

    def _is_there(self, node: int) -> bool:
        """Whether a node is there: it has started, or it has seen all others, or its file is still
        changing.
        """
        if _has_started(self._folder(node)):
            return True
        found = files.read_json(self._path(node))
        if found is None or found["met"]:
            return found is not None
        beat = int(found["beat"])
        known, since = self._moved.get(node, (self._first.setdefault(node, beat), 0.0))
        if beat != known:
            since = time.monotonic()
            self._moved[node] = (beat, since)
        return since > 0.0 and time.monotonic() - since < _SILENT_S

    def _complete_place(self) -> NodePlace:
        self._beat(met=True)
        facts = [files.read_json(self._path(node)) or {} for node in range(self._place.nodes)]
        hosts = [_reachable(one) for one in facts]
        return self._place._replace(hosts=hosts, port=int(facts[0].get("port", self._port)))

    def _folder(self, node: int) -> str:
        return os.path.join(self._store, run_layout.node_key(self._place.run_id, self._place.attempt, node))

    def _path(self, node: int) -> str:
        return os.path.join(self._folder(node), READY)


def wait_until_prepared(store: str, place: NodePlace, keep_on: Callable[[int], bool]) -> bool:
    """Mark this node as prepared. On the first node, wait until all nodes are. False when `keep_on` returns
    False.
    """
    paths = [
        os.path.join(store, run_layout.node_key(place.run_id, place.attempt, n)) for n in range(place.nodes)
    ]
    files.write_whole(os.path.join(paths[place.node], PREPARED), b"{}")
    left = paths[1:] if place.node == 0 else []
    while left:
        left = [path for path in left if not _has_any(path, PREPARED, run_layout.EXIT)]
        if left and not keep_on(-1):
            return False
    return True


def _has_any(path: str, *names: str) -> bool:
    return any(os.path.exists(os.path.join(path, name)) for name in names)


def another_failed(store: str, place: NodePlace) -> bool:
    """Whether another node of the attempt has ended without success."""
    for node in range(place.nodes):
        path = os.path.join(store, run_layout.node_key(place.run_id, place.attempt, node))
        record = _exit_of(path) if node != place.node else None
        if record is not None and record["state"] != State.SUCCEEDED:
            return True
    return False


def has_exit(store: str, place: NodePlace, node: int) -> bool:
    """Whether a node of the attempt has written its exit record, in a store that all nodes share."""
    return _exit_of(os.path.join(store, run_layout.node_key(place.run_id, place.attempt, node))) is not None


def was_begun(store: str, run_id: str, attempt: int, request: dict[str, Any]) -> bool:
    """Whether a node on this machine has an exit record. A node that withdrew has none."""
    paths = (os.path.join(store, run_layout.node_key(run_id, attempt, node)) for node in own_nodes(request))
    return any(_exit_of(path) is not None for path in paths)


def has_ended(store: str, run_id: str, attempt: int, request: dict[str, Any]) -> bool:
    """Whether every node, on any machine, has an exit record or counts as gone."""
    for node in range(request["layout"]["nodes"]):
        path = os.path.join(store, run_layout.node_key(run_id, attempt, node))
        if _exit_of(path) is None and _age_s(path) < _LOST_S:
            return False
    return True


def _exit_of(path: str) -> dict[str, Any] | None:
    return files.read_json(os.path.join(path, run_layout.EXIT))


def _age_s(path: str) -> float:
    """Seconds since anything in the folder was written, by the clock of the file system, which may differ
    from ours.
    """
    try:
        newest = max(entry.stat().st_mtime for entry in os.scandir(path))
    except (FileNotFoundError, ValueError):
        return 0.0 if os.path.isdir(path) else float("inf")
    probe = os.path.join(path, f"now.{os.getpid()}.tmp")
    with open(probe, "wb"):
        pass
    now = os.stat(probe).st_mtime
    files.remove(probe)
    return now - newest


def _has_started(path: str) -> bool:
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        return False
    return any(name == run_layout.EXIT or name.startswith("rank-") for name in names)


def _reachable(facts: dict[str, Any]) -> str:
    """The name of a host if it can be resolved on this machine, else its address."""
    name, address = str(facts.get("host", "")), str(facts.get("address", "127.0.0.1"))
    try:
        found = socket.gethostbyname(name)
    except OSError:
        return address
    return name if not found.startswith("127.") or name == os.uname().nodename else address


def own_address() -> str:
    """The address at which other machines reach this one. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
