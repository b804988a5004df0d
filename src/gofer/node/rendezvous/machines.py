"""A run whose nodes are on several machines, each with its own queue: how they meet and watch each other.

All they share is the run's folder. Each node keeps a file there that changes while it waits, so that the
others know that it is alive, whatever the clocks say. Nobody starts before all are there; who is left alone
gives its place back and tries again later, so that two runs cannot wait for each other's machines for ever.
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
# Longer than a file system between machines takes to show a change.
_SILENT_S = 15.0
_PATIENCE_S = 60.0
_RETREAT_S = 6.0
# A node that ended without a word is missed after this; its heartbeats come every ten seconds.
_LOST_S = 90.0


def own_nodes(request: dict[str, Any]) -> list[int]:
    """The nodes of a run that are on this machine: all, unless it spans several."""
    nodes: list[int] | None = request.get("span")
    return list(range(request["layout"]["nodes"])) if nodes is None else nodes


class Gathering:
    """One node's part in the meeting of all nodes of an attempt."""

    def __init__(self, store: str, place: NodePlace, watch: Watch) -> None:
        self._store = store
        self._place = place
        self._watch = watch
        self._port = _free_port()
        self._beats = 0
        self._first: dict[int, int] = {}
        self._moved: dict[int, tuple[int, float]] = {}

    def meet(self) -> NodePlace | None:
        """The place with the names of all hosts and the port where ranks meet; None when not all came."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            self._beat()
            if all(self._is_there(node) for node in self._others):
                return self._told()
            if self._watch.cause is not None or time.monotonic() > deadline:
                break
            pause(_BEAT_S)
        return self._retreat()

    @property
    def _others(self) -> list[int]:
        return [node for node in range(self._place.nodes) if node != self._place.node]

    def _retreat(self) -> NodePlace | None:
        """Go away first, and look whether somebody has started in the belief that this node is there."""
        files.remove(self._path(self._place.node))
        until = time.monotonic() + _RETREAT_S
        while time.monotonic() < until and self._watch.cause is None:
            if any(_has_started(self._folder(node)) for node in self._others):
                return self._told()
            pause(_BEAT_S)
        return None

    def _beat(self, *, met: bool = False) -> None:
        self._beats += 1
        facts: dict[str, Any] = {"beat": self._beats, "met": met, "port": self._port}
        facts.update(host=os.uname().nodename, address=own_address())
        files.write_whole(self._path(self._place.node), files.encode(facts))

    def _is_there(self, node: int) -> bool:
        """It has started or met everybody, or its file has changed since it was first seen, not long ago."""
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

    def _told(self) -> NodePlace:
        self._beat(met=True)
        facts = [files.read_json(self._path(node)) or {} for node in range(self._place.nodes)]
        hosts = [_reachable(one) for one in facts]
        return self._place._replace(hosts=hosts, port=int(facts[0].get("port", self._port)))

    def _folder(self, node: int) -> str:
        return os.path.join(self._store, run_layout.node_key(self._place.run_id, self._place.attempt, node))

    def _path(self, node: int) -> str:
        return os.path.join(self._folder(node), READY)


def wait_until_prepared(store: str, place: NodePlace, keep_on: Callable[[int], bool]) -> bool:
    """Say that this node is prepared; on the first node, wait until all are. False when `keep_on` ends it."""
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
    """Whether a node of the attempt has ended otherwise than well."""
    for node in range(place.nodes):
        path = os.path.join(store, run_layout.node_key(place.run_id, place.attempt, node))
        record = _exit_of(path) if node != place.node else None
        if record is not None and record["state"] != State.SUCCEEDED:
            return True
    return False


def has_exit(store: str, place: NodePlace, node: int) -> bool:
    """Whether a node of the attempt has said how it ended, in a store that all nodes see."""
    return _exit_of(os.path.join(store, run_layout.node_key(place.run_id, place.attempt, node))) is not None


def was_begun(store: str, run_id: str, attempt: int, request: dict[str, Any]) -> bool:
    """Whether a node of this machine came so far as to end; one that was left alone did not."""
    paths = (os.path.join(store, run_layout.node_key(run_id, attempt, node)) for node in own_nodes(request))
    return any(_exit_of(path) is not None for path in paths)


def has_ended(store: str, run_id: str, attempt: int, request: dict[str, Any]) -> bool:
    """Whether every node, wherever it is, has said how it ended, or has been silent for long."""
    for node in range(request["layout"]["nodes"]):
        path = os.path.join(store, run_layout.node_key(run_id, attempt, node))
        if _exit_of(path) is None and _age_s(path) < _LOST_S:
            return False
    return True


def _exit_of(path: str) -> dict[str, Any] | None:
    return files.read_json(os.path.join(path, run_layout.EXIT))


def _age_s(path: str) -> float:
    """Since anything in the folder was written, by the clock of the file system."""
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
    """The name of a host where it means something here, else its address."""
    name, address = str(facts.get("host", "")), str(facts.get("address", "127.0.0.1"))
    try:
        found = socket.gethostbyname(name)
    except OSError:
        return address
    return name if not found.startswith("127.") or name == os.uname().nodename else address


def own_address() -> str:
    """The address that this machine would be spoken to at; no packet is sent."""
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
