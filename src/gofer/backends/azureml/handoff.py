"""The handoff folder of a run in the store: the request and the secrets. The agent is stored beside it."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from gofer.backends.azureml import names
from gofer.backends.azureml.plan import AzureRequest
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.core.store_spec import StoreSpec
from gofer.errors import CredentialError, GoferError, Unreachable
from gofer.objects import open_objects
from gofer.objects.base import ObjectService
from gofer.objects.facts import Exists, ObjectsError
from gofer.objects.files import FileObjects
from gofer.transport.bundle import bundle, mark

REQUEST = "request.json"
PRIVATE = "private.json"
# Refresh the time of a used agent well before `prune` would remove it, which is after a day without use.
_YOUNG_S = 12 * 3600.0
_STORAGE = "https://storage.azure.com/.default"

Objects = ObjectService | FileObjects


class HandoffStore:
    """Writes handoff folders and removes secrets from them. `token` returns the user's token for a scope."""

    def __init__(self, token: Callable[[str], str]) -> None:
        self._token = token

    def open(self, spec: StoreSpec) -> Objects:
        """Open the store. A store that nodes open by their identity is opened here with the user's login."""
        if "identity" in spec:
            place = spec.copy()
            del place["identity"]
            return open_objects({**place, "token": self._token(_STORAGE)})
        return open_objects(spec)

    def put_agent(self, objects: Objects) -> None:
        """Upload the agent unless it is present.

        Writes the agent again after 12 h, so that `prune`, which goes by age, keeps an agent in use.
        """
        key = names.agent_key(mark())
        _explained(lambda: _put_agent(objects, key, lambda: bundle().data))

    def put_handoff(self, objects: Objects, request: AzureRequest, private: RunSecrets) -> None:
        """Write the secrets, then the request. Blocking; idempotent.

        The request comes last: a node that finds the request also finds the secrets. The request names the
        agent, so that `prune` keeps that agent.
        """
        values = msgspec.json.encode(private._asdict())
        request_json = msgspec.json.encode({**msgspec.to_builtins(request), "agent": mark()})
        _explained(lambda: objects.put(names.handoff_key(request.id, PRIVATE), values))
        _explained(lambda: objects.put(names.handoff_key(request.id, REQUEST), request_json))

    def empty(self, spec: StoreSpec, request_id: str) -> None:
        """Remove the secrets of a request that has ended. Idempotent."""
        objects = self.open(spec)
        _explained(lambda: objects.delete([names.handoff_key(request_id, PRIVATE)]))


def _put_agent(objects: Objects, key: str, data: Callable[[], bytes]) -> None:
    present = objects.head(key)
    if present is not None and time.time() - present.modified < _YOUNG_S:
        return
    try:
        objects.put(key, data(), new=present is None)
    except Exists:
        return  # another submission uploaded the same agent first


def _explained(act: Callable[[], object]) -> None:
    """Run `act`; raise its storage error as an error of gofer with a hint."""
    try:
        act()
    except ObjectsError as error:
        raise _problem(error) from error


def _problem(error: ObjectsError) -> GoferError:
    if error.status in (401, 403):
        return CredentialError(
            f"the target's store refuses the credential: {error}", hint="`gofer store check` says more"
        )
    return Unreachable(f"the target's store cannot be written: {error}", hint="`gofer store check` says more")
