"""What the nodes of a run tell each other: small objects in the store.

told/<id>/<run or row>/begun.<attempt>          an attempt was taken up; made once
told/<id>/<run or row>/exit.<attempt>.<node>    how a node's share of it ended
told/<id>/<run or row>/here.<node>, beat.<node>, sent.<node>, meet    see gofer.node.azure.rendezvous
rooms/<id>/over.json                            how a run ended whose private values are gone

They come and go while the service brings the room to other nodes, of other rows among them, and it fails
when something goes that it was about to bring; so they are not in the room.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from gofer.core import files, run_layout
from gofer.core.json_text import parse_json
from gofer.core.numerals import parse_count
from gofer.objects import open_objects
from gofer.objects.base import ObjectService
from gofer.objects.facts import Exists, ObjectNotFound
from gofer.objects.patience import Policy

ROOMS = "rooms"
TOLD = "told"
PRIVATE = "private.json"
OVER = "over.json"
# A look is made again soon enough; what must arrive is tried again by whoever sends it.
_POLICY = Policy(tries=3, first_s=0.2, most_s=1.0, patience_s=5.0)


class Told:
    """The words of one run. Every verb asks the store and may raise ObjectsError."""

    def __init__(self, spec: Dict[str, Any], request_id: str, run_id: str, row: Optional[int]) -> None:
        opened = open_objects({"timeout_s": 10.0, **spec}, policy=_POLICY)
        if not isinstance(opened, ObjectService):
            raise ValueError("runs of this service need a store that all its nodes reach, and no folder")
        self.objects: ObjectService = opened
        self._run_id = run_id
        self._room = f"{ROOMS}/{request_id}"
        self._place = f"{TOLD}/{request_id}/{'run' if row is None else row}"
        self._known: Dict[str, Tuple[Optional[str], Dict[str, Any]]] = {}

    def tell(self, name: str, value: Dict[str, Any]) -> None:
        self.objects.put(f"{self._place}/{name}", files.encode(value))

    def claim(self, name: str, value: Dict[str, Any]) -> bool:
        """Tell it if nobody has; False when somebody had."""
        try:
            self.objects.put(f"{self._place}/{name}", files.encode(value), new=True)
        except Exists:
            return False
        return True

    def heard(self, name: str) -> Optional[Dict[str, Any]]:
        """None when it was not told."""
        return self._read(f"{self._place}/{name}")

    def look(self) -> Dict[str, Dict[str, Any]]:
        """All that was told, by name: one listing, and a read of what is new."""
        found: Dict[str, Tuple[Optional[str], Dict[str, Any]]] = {}
        for info in self.objects.list_beginning(f"{self._place}/"):
            name = info.key[len(self._place) + 1 :]
            known = self._known.get(name)
            if known is not None and known[0] == info.etag and info.etag is not None:
                found[name] = known
                continue
            value = self.heard(name)
            if value is not None:
                found[name] = (info.etag, value)
        self._known = found
        return {name: value for name, (_, value) in found.items()}

    def exit_record(self, attempt: int, node: int) -> Optional[Dict[str, Any]]:
        """How a node ended, as it told it or as its folder in the store has it."""
        told = self.heard(f"exit.{attempt}.{node}")
        return told or self._read(f"{run_layout.node_key(self._run_id, attempt, node)}/{run_layout.EXIT}")

    def attempts(self) -> Dict[int, float]:
        """The attempts there were, and when each was taken up, 0 where nobody said it."""
        numbers = map(parse_count, self._attempt_folders())
        found = {number: 0.0 for number in numbers if number is not None}
        for name, value in self.look().items():
            kind, _, text = name.partition(".")
            number = parse_count(text)
            if kind == "begun" and number is not None:
                found[number] = float(value.get("at") or 0.0)
        return found

    def end(self) -> Optional[Dict[str, Any]]:
        """The line that says how the run ended; None while it has not."""
        try:
            data = self.objects.get(run_layout.ends_key(self._run_id))
        except ObjectNotFound:
            return None
        return next((one for one in files.read_lines(data) if one.get("id") == self._run_id), None)

    def write_end(self, line: bytes) -> None:
        self.objects.put(run_layout.ends_key(self._run_id), line)

    def clear(self, status: int, *, is_last: bool) -> None:
        """The run is over: remove what was told, and with the last run of the room its private values.

        A service that starts the job once more finds instead the status to end with.
        """
        self.objects.delete([info.key for info in self.objects.list_beginning(f"{self._place}/")])
        if is_last:  # and last of all, since they are what opens the store
            self.objects.put(f"{self._room}/{OVER}", files.encode({"status": status}))
            self.objects.delete([f"{self._room}/{PRIVATE}"])

    def forget(self, *names: str) -> None:
        """Remove what may have been told after that."""
        self.objects.delete([f"{self._place}/{name}" for name in names])

    def _attempt_folders(self) -> list[str]:
        return list(self.objects.list_folders(run_layout.attempts_key(self._run_id)))

    def _read(self, key: str) -> Optional[Dict[str, Any]]:
        try:
            value = parse_json(self.objects.get(key))
        except (ObjectNotFound, ValueError):
            return None
        return value if isinstance(value, dict) else None
