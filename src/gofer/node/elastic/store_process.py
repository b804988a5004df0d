"""The process that reads and writes the store for an agent of an elastic run.

A shared file system or an object store may not answer for minutes. The agent must send heartbeats meanwhile,
so it never waits for the store itself.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional

from gofer.core import files, run_layout
from gofer.core.json_text import parse_json
from gofer.node.elastic import records
from gofer.node.elastic.actions import NoteEnd
from gofer.node.elastic.lease_store import LeaseStore
from gofer.node.elastic.records import Generation, LeaderLease
from gofer.node.helper_process import HelperProcess
from gofer.objects.facts import ObjectsError

_PIECE = 65536


class StoreAnswer(NamedTuple):
    """What the store said. `failed`: it did not answer. `written` is None for a read."""

    failed: bool
    written: Optional[bool]
    lease: Optional[LeaderLease]
    wish: Optional[Dict[str, Any]]


class StoreProcess:
    """The agent's side. No method blocks, except `close`."""

    def __init__(self, lease_store: LeaseStore, notes_folder: str) -> None:
        ours, theirs = socket.socketpair()
        self._child = HelperProcess(
            lambda reader: _serve(theirs, lease_store, notes_folder), kept=(theirs.fileno(),)
        )
        theirs.close()
        ours.setblocking(False)
        self.socket = ours
        self.pid = self._child.pid
        self._received = b""

    def read(self) -> None:
        self._send({"do": "read"})

    def write(self, lease: LeaderLease) -> None:
        self._send({"do": "write", "lease": lease.encode()})

    def note_generation(self, generation: Generation) -> None:
        self._send({"do": "begin", "generation": generation.encode()})

    def note_end(self, end: NoteEnd) -> None:
        outcome = {**end._asdict(), "generation": end.generation.encode()}
        self._send({"do": "end", **outcome})

    def answers(self) -> List[StoreAnswer]:
        """The answers to `read` and `write` that have come."""
        try:
            self._received += self.socket.recv(_PIECE)
        except OSError:
            return []
        *lines, self._received = self._received.split(b"\n")
        return [_answer(parse_json(line)) for line in lines]

    def close(self) -> None:
        """End the process once it has written down everything. Blocks for some seconds at most."""
        self.socket.setblocking(True)
        self._send({"do": "close"})
        self.socket.settimeout(5.0)
        try:
            while self.socket.recv(_PIECE):
                pass
        except OSError:
            pass
        self.socket.close()
        self._child.finish(within_s=1.0)

    def _send(self, message: Dict[str, Any]) -> None:
        try:
            self.socket.sendall(files.encode(message) + b"\n")
        except OSError:
            pass  # the process is gone; the agent ends when it does not answer


def _answer(value: Any) -> StoreAnswer:
    lease = value.get("lease")
    decoded = None if lease is None else records.decode_lease(lease)
    return StoreAnswer(bool(value.get("failed")), value.get("written"), decoded, value.get("wish"))


# -- in the process


def _serve(connection: socket.socket, lease_store: LeaseStore, notes_folder: str) -> bool:
    incoming = connection.makefile("rb")
    while True:
        line = incoming.readline()
        if not line.endswith(b"\n"):
            return True  # the agent is gone
        message = parse_json(line)
        if message["do"] == "close":
            return True
        reply = _do(message, lease_store, notes_folder)
        if reply is not None:
            connection.sendall(files.encode(reply) + b"\n")


def _do(message: Dict[str, Any], lease_store: LeaseStore, notes_folder: str) -> Optional[Dict[str, Any]]:
    try:
        if message["do"] == "read":
            lease = lease_store.read()
            return {"lease": None if lease is None else lease.encode(), "wish": lease_store.wish()}
        if message["do"] == "write":
            is_written = lease_store.write(records.decode_lease(message["lease"]))
            return {"written": is_written, "wish": lease_store.wish()}
    except (OSError, ObjectsError) as error:
        print(f"gofer: the store of the run does not answer: {error}", file=sys.stderr, flush=True)
        return {"failed": True}
    try:
        _note(message, notes_folder)
    except OSError as error:
        print(f"gofer: the record of a generation was not written: {error}", file=sys.stderr, flush=True)
    return None


def _note(message: Dict[str, Any], notes_folder: str) -> None:
    """Write `generation.json` in the folder of the attempt: when the generation begins, and when it ends."""
    generation = message["generation"]
    path = os.path.join(notes_folder, str(generation["number"]), run_layout.GENERATION)
    known = files.read_json(path) or {}
    if message["do"] == "begin" and known:
        return
    names = ("state", "reason", "detail", "exit_code")
    ended: Dict[str, Any] = {name: message[name] for name in names if name in message}
    if ended:
        ended["ended"] = time.time()
    generation["began"] = known.get("began") or time.time()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files.write_whole(path, files.encode({**known, **generation, **ended}))
