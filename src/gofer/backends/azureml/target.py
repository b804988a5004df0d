"""The connection of one target to its workspace: names, remembered facts, and a client made on first use."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from gofer.backends.azureml import names
from gofer.backends.azureml.names import Workspace
from gofer.backends.azureml.notes import Known, RunNotes
from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.service import Service
from gofer.backends.polling import Polling
from gofer.backends.registry import BackendContext, BlobPlace
from gofer.config.redact import remember
from gofer.transport.azure.cloud import find_cloud, in_cloud

if TYPE_CHECKING:
    from gofer.backends.azureml.handoff import Rooms
    from gofer.backends.azureml.logs import Logs


class AzureTarget:
    """Making one does no I/O with the service."""

    def __init__(self, options: AzureOptions, context: BackendContext) -> None:
        self.target = context.target
        self._options = options
        self._context = context
        self._seals = os.path.join(context.engine, "azureml")
        self._workspace = Workspace(
            options.subscription_id or "", options.resource_group or "", options.workspace or ""
        )
        self.service_name = self._workspace.id.lower()
        self._environ = os.environ if context.environ is None else context.environ
        if options.cloud:
            self._environ = in_cloud(options.cloud, self._environ)
        self._notes = RunNotes(self._seals)
        # Each question names its jobs, so an answer never covers the whole workspace.
        self._polling = Polling(context.engine, self.service_name, "azureml", is_whole=False)

    @cached_property
    def _store(self) -> BlobPlace:
        found = self._context.place_of(self._context.store_url)
        assert found is not None  # `make` refuses such a target
        return found

    def _datastore_of(self, place: BlobPlace, write: bool = True) -> str:
        named = self._options.datastore
        own = (self._store.endpoint, self._store.container, self._store.scope)
        if named and (place.endpoint, place.container, place.scope) == own:
            return named
        by_identity = self._options.identity is not None
        return names.datastore_name(place, write=write, by_identity=by_identity)

    def _ssh_key(self) -> str | None:
        if not self._options.interactive:
            return None
        from gofer.backends.azureml.shell import public_key

        return public_key(self._options.ssh_public_key, home())

    @property
    def _azure_folder(self) -> str:
        """The folder for tokens and cloud addresses, shared by all commands of gofer."""
        return os.path.join(self._context.engine, "azure")

    @cached_property
    def _service(self) -> Service:
        from gofer.transport.azure.arm import Arm
        from gofer.transport.azure.credential import AzureCredential

        cloud = find_cloud(self._environ, self._azure_folder)
        credential = AzureCredential(
            self._azure_folder, self._environ, authority=cloud.authority, remember=remember
        )
        return Service(Arm(cloud, credential), self._workspace, Known(self._seals, self._workspace.id))

    @cached_property
    def _rooms(self) -> Rooms:
        from gofer.backends.azureml.handoff import Rooms

        return Rooms(lambda scope: self._service.arm.credential.token(scope).value)

    @cached_property
    def _logs(self) -> Logs:
        from gofer.backends.azureml.logs import Logs

        return Logs(self._service)


def home() -> str:
    return os.path.expanduser("~")
