"""The room of a run in its store: the request, the private values, and the agent beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from gofer.backends.azureml import names
from gofer.backends.azureml.request import AzureRequest
from gofer.core.secrets.run_secrets import Private
from gofer.errors import CredentialError, GoferError, Unreachable
from gofer.objects import open_objects
from gofer.objects.facts import Exists, ObjectsError

REQUEST = "request.json"
PRIVATE = "private.json"
# Less than the day that an agent which no run needs is kept: see gofer.backends.azureml.prune.
_YOUNG_S = 12 * 3600.0
_STORAGE = "https://storage.azure.com/.default"

Objects = Any


class Rooms:
    """Writes rooms and empties them. `token` gets a token of whoever is signed in, for a scope."""

    def __init__(self, token: Callable[[str], str]) -> None:
        self._token = token

    def open(self, spec: dict[str, Any]) -> Objects:
        """What a node opens by its own identity, a person opens by their login."""
        if "identity" in spec:
            place = {name: value for name, value in spec.items() if name != "identity"}
            return open_objects({**place, "token": self._token(_STORAGE)})
        return open_objects(spec)

    def put_agent(self, objects: Objects) -> None:
        """Unless it is there. One that is used stays young: who removes old ones looks at its time."""
        from gofer.transport.bundle import bundle, mark

        key = names.agent_key(mark())
        _explained(lambda: _put_agent(objects, key, lambda: bundle().data))

    def put_room(self, objects: Objects, request: AzureRequest, private: Private) -> None:
        """The request last: it is there only with what belongs to it.

        It names the agent, which stays for it: see gofer.backends.azureml.prune.
        """
        from gofer.transport.bundle import mark

        values = msgspec.json.encode(private._asdict())
        asked = msgspec.json.encode({**msgspec.to_builtins(request), "agent": mark()})
        _explained(lambda: objects.put(names.room_key(request.id, PRIVATE), values))
        _explained(lambda: objects.put(names.room_key(request.id, REQUEST), asked))

    def empty(self, spec: dict[str, Any], request_id: str) -> None:
        """Remove the private values of a request that has ended. Idempotent."""
        objects = self.open(spec)
        _explained(lambda: objects.delete([names.room_key(request_id, PRIVATE)]))


def _put_agent(objects: Objects, key: str, data: Callable[[], bytes]) -> None:
    there = objects.head(key)
    if there is not None and time.time() - there.modified < _YOUNG_S:
        return
    try:
        objects.put(key, data(), new=there is None)
    except Exists:
        return  # another submission was faster


def _explained(act: Callable[[], object]) -> None:
    try:
        act()
    except ObjectsError as error:
        raise _problem(error) from error


def _problem(error: ObjectsError) -> GoferError:
    if error.status in (401, 403):
        return CredentialError(
            f"the target's store does not take what opens it: {error}", hint="`gofer store check` says more"
        )
    return Unreachable(f"the target's store cannot be written: {error}", hint="`gofer store check` says more")
