"""What the parts of the backend of one target share: the workspace, notes on this machine, and the client of
the service.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from gofer.backends.azureml import names
from gofer.backends.azureml.handoff import HandoffStore
from gofer.backends.azureml.logs import Logs
from gofer.backends.azureml.names import Workspace
from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.service import Service
from gofer.backends.kind import BackendContext, BlobPlace
from gofer.backends.polling import Polling
from gofer.backends.run_notes import KnownResources, RunNotes
from gofer.config.redact import remember
from gofer.transport.azure.arm import Arm
from gofer.transport.azure.cloud import find_cloud, in_cloud
from gofer.transport.azure.credential import AzureCredential

if TYPE_CHECKING:
    from gofer.backends.azureml.handoff import HandoffStore
    from gofer.backends.azureml.logs import Logs
    from gofer.model.job import Job


class AzureConnection:
    """The workspace, notes and client of one target. The constructor calls no service; the first use of
    `service` makes the client, and may fail as a login fails.

    Files on this machine keep notes about runs, resources that are known to exist, and the last answers of
    the service. All targets of a workspace, and all commands, use the same files.
    """

    def __init__(self, options: AzureOptions, context: BackendContext) -> None:
        self.target = context.target
        self.options = options
        self.context = context
        store = context.place_of(context.store_url)
        assert store is not None  # gofer.backends.azureml.make refuses a store outside of Azure Blob Storage
        self.store: BlobPlace = store
        self.secrets_folder = os.path.join(context.queue_home, "azureml")
        self.workspace = Workspace(
            options.subscription_id or "", options.resource_group or "", options.workspace or ""
        )
        self.service_name = self.workspace.id.lower()
        self.environ = context.login_environ()
        if options.cloud:
            self.environ = in_cloud(options.cloud, self.environ)
        self.notes = RunNotes(self.secrets_folder)
        # A question names its jobs, so a job that is missing in the answer may still exist.
        self.polling = Polling(context.queue_home, self.service_name, "azureml", is_whole=False)

    def datastore_of(self, place: BlobPlace, write: bool = True) -> str:
        """The name of the datastore through which jobs reach the place. Calls no service.

        The `datastore` of the target is taken if the place is in the container of the target's store.
        Otherwise the name depends on the place, on `write`, and on whether jobs use an identity.
        """
        named = self.options.datastore
        own = (self.store.endpoint, self.store.container, self.store.scope)
        if named and (place.endpoint, place.container, place.scope) == own:
            return named
        by_identity = self.options.identity is not None
        return names.datastore_name(place, write=write, by_identity=by_identity)

    def ssh_key(self, job: Job) -> str | None:
        """The public key for shells in the job; None without shells. CheckFailed when no key is found."""
        if not (self.options.interactive or job.shell):
            return None
        from gofer.backends.azureml.shell import public_key

        return public_key(self.options.ssh_public_key, home())

    @property
    def azure_folder(self) -> str:
        """The folder for tokens and cloud addresses, shared by all commands of gofer."""
        return os.path.join(self.context.queue_home, "azure")

    @cached_property
    def service(self) -> Service:
        cloud = find_cloud(self.environ, self.azure_folder)
        credential = AzureCredential(
            self.azure_folder, self.environ, authority=cloud.authority, remember=remember
        )
        return Service(
            Arm(cloud, credential), self.workspace, KnownResources(self.secrets_folder, self.workspace.id)
        )

    @cached_property
    def compute(self) -> Mapping[str, object]:
        """The compute as the service describes it, asked once. Only for the platforms `aml` and `itp`."""
        return self.service.compute(self.options.compute or "")

    @cached_property
    def handoff_store(self) -> HandoffStore:
        return HandoffStore(lambda scope: self.service.arm.credential.token(scope).value)

    @cached_property
    def logs(self) -> Logs:
        return Logs(self.service)


def home() -> str:
    return os.path.expanduser("~")
