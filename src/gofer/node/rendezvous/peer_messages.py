"""Messages between the nodes of a run: small objects in the store.

told/<id>/<run or row>/begun.<attempt>          an attempt was claimed; created once
told/<id>/<run or row>/exit.<attempt>.<node>    how a node's share of the attempt ended
told/<id>/<run or row>/here.<node>, beat.<node>, sent.<node>, meet    see gofer.node.rendezvous.objects
rooms/<id>/over.json                            how a run ended whose private values are gone

The messages are not in `rooms/`, the folder that the service downloads to each node: nodes start at different
times, and a download fails when an object vanishes in the meantime.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple, TypeVar, cast

from gofer.core import files, run_layout
from gofer.core.json_text import parse_count, parse_json
from gofer.core.outcome import EndFields, ExitFields
from gofer.core.store_spec import StoreSpec
from gofer.node.uploader.patience import retry_store
from gofer.objects import open_objects
from gofer.objects.base import ObjectService
from gofer.objects.facts import Exists, ObjectNotFound
from gofer.objects.retry_policy import Policy

T = TypeVar("T")
Messages = Dict[str, Dict[str, Any]]

HANDOFFS = "rooms"
MESSAGES_FOLDER = "told"
PRIVATE = "private.json"
OVER = "over.json"
LOOK_S = 2.5
# Reads are repeated soon anyway, and callers repeat writes that must arrive: see `patiently`.
_POLICY = Policy(tries=3, first_s=0.2, most_s=1.0, patience_s=5.0)

# Blocks for about this many seconds; False when the service has terminated this node.
Wait = Callable[[float], bool]


class Terminated(Exception):
    """The service wants this node to end."""


def patiently(act: Callable[[], T], wait: Wait) -> T:
    """Call `act`, and repeat it while the store does not answer. Blocks. Terminated when the service ends
    this node; the last ObjectsError when the store stays away too long.
    """

    def wait_or_end(seconds: float) -> None:
        if not wait(seconds):
            raise Terminated

    return retry_store(act, words="the store does not answer", pause_s=LOOK_S, wait=wait_or_end)


class PeerMessages:
    """The messages of one run. Every method calls the store and may raise ObjectsError. Blocks."""

    def __init__(self, spec: StoreSpec, request_id: str, run_id: str, row: Optional[int]) -> None:
        opened = open_objects({"timeout_s": 10.0, **spec}, policy=_POLICY)
        if not isinstance(opened, ObjectService):
            raise ValueError(
                "runs on this service need an object store that all their nodes reach, not a folder"
            )
        self.objects: ObjectService = opened
        self._run_id = run_id
        self._handoff = f"{HANDOFFS}/{request_id}"
        self._place = f"{MESSAGES_FOLDER}/{request_id}/{'run' if row is None else row}"
        self._known: Dict[str, Tuple[Optional[str], Dict[str, Any]]] = {}

    def publish(self, name: str, value: Dict[str, Any]) -> None:
        self.objects.put(f"{self._place}/{name}", files.encode(value))

    def claim(self, name: str, value: Dict[str, Any]) -> bool:
        """Create the message; False when it exists already. Exactly one of several callers gets True."""
        try:
            self.objects.put(f"{self._place}/{name}", files.encode(value), new=True)
        except Exists:
            return False
        return True

    def read(self, name: str) -> Optional[Dict[str, Any]]:
        """One message; None when it does not exist."""
        return self._read(f"{self._place}/{name}")

    def read_all(self) -> Messages:
        """All messages, by name. Costs one listing, and one read for each new message."""
        found: Dict[str, Tuple[Optional[str], Dict[str, Any]]] = {}
        for info in self.objects.list_beginning(f"{self._place}/"):
            name = info.key[len(self._place) + 1 :]
            known = self._known.get(name)
            if known is not None and known[0] == info.etag and info.etag is not None:
                found[name] = known
                continue
            value = self.read(name)
            if value is not None:
                found[name] = (info.etag, value)
        self._known = found
        return {name: value for name, (_, value) in found.items()}

    def exit_record(self, attempt: int, node: int) -> Optional[ExitFields]:
        """The exit record of a node, from its message or from its folder in the store; None when there is
        none.
        """
        key = f"{run_layout.node_key(self._run_id, attempt, node)}/{run_layout.EXIT}"
        return cast("ExitFields | None", self.read(f"exit.{attempt}.{node}") or self._read(key))

    def attempts(self) -> Dict[int, float]:
        """The attempts that were made, with the time when each was claimed (0 when unknown)."""
        numbers = map(parse_count, self._attempt_folders())
        found = {number: 0.0 for number in numbers if number is not None}
        for name, value in self.read_all().items():
            kind, _, text = name.partition(".")
            number = parse_count(text)
            if kind == "begun" and number is not None:
                found[number] = float(value.get("at") or 0.0)
        return found

    def end(self) -> Optional[EndFields]:
        """The line that says how the run ended; None while the run has not ended."""
        try:
            data = self.objects.get(run_layout.ends_key(self._run_id))
        except ObjectNotFound:
            return None
        line = next((one for one in files.read_lines(data) if one.get("id") == self._run_id), None)
        return cast("EndFields | None", line)

    def write_end(self, line: bytes) -> None:
        self.objects.put(run_layout.ends_key(self._run_id), line)

    def clear(self, status: int, *, is_last: bool) -> None:
        """Remove the messages of a run that has ended. With the last run of a request, also remove its
        private values.

        If the service starts the job once more, it finds the exit status in place of the private values.
        """
        self.objects.delete([info.key for info in self.objects.list_beginning(f"{self._place}/")])
        if is_last:  # last of all, since the private values hold the credentials of the store
            self.objects.put(f"{self._handoff}/{OVER}", files.encode({"status": status}))
            self.objects.delete([f"{self._handoff}/{PRIVATE}"])

    def remove(self, *names: str) -> None:
        """Remove messages by name. Idempotent."""
        self.objects.delete([f"{self._place}/{name}" for name in names])

    def _attempt_folders(self) -> list[str]:
        return list(self.objects.list_folders(run_layout.attempts_key(self._run_id)))

    def _read(self, key: str) -> Optional[Dict[str, Any]]:
        try:
            value = parse_json(self.objects.get(key))
        except (ObjectNotFound, ValueError):
            return None
        return value if isinstance(value, dict) else None
