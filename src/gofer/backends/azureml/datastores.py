"""The datastores through which the service reads and writes gofer's stores: one for each container."""

from __future__ import annotations

import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gofer.backends.azureml import names
from gofer.backends.azureml.names import Workspace
from gofer.backends.azureml.service import Service
from gofer.backends.kind import BlobPlace
from gofer.config.redact import remember
from gofer.core.store_spec import StoreSpec
from gofer.errors import CheckFailed
from gofer.objects.azure_auth import bare_token, sas_fields
from gofer.text import parse_time
from gofer.transport.azure.arm import Arm

# A datastore is renewed only when its signature would end more than this long before the run's signature:
# otherwise each run, whose signature ends a little later, would write the datastore again.
_SLACK_S = 3600.0
_UNTIL = "gofer_until"
# The hint about a SAS that ends, in a datastore that the user made.
RENEW = "put a new SAS into the datastore, or leave `datastore` out of the target: then gofer makes one"


class UserDatastore(NamedTuple):
    """A datastore that the user made: the container that it opens, and whether it opens it with a SAS."""

    account: str
    container: str
    by_sas: bool = False

    def check(self, name: str, place: BlobPlace) -> None:
        """Raise CheckFailed when the datastore opens a container other than that of the target's store."""
        if (self.account, self.container) != (place.account, place.container):
            raise CheckFailed(
                f"the datastore `{name}` opens the container `{self.container}` of the account "
                f"`{self.account}`, but the target's store is `{place.container}` of `{place.account}`",
                hint="set another `store` or another `datastore` in the target, or leave `datastore` out",
            )


def read_user_datastore(arm: Arm, workspace: Workspace, name: str) -> UserDatastore:
    """Read the datastore `name` from the workspace.

    Raises CheckFailed when the workspace has no datastore of that name, or when the datastore holds no blobs.
    """
    found = (arm.find(_path(workspace, name), names.DATASTORES_API) or {}).get("properties")
    if found is None:
        raise CheckFailed(
            f"the workspace `{workspace.name}` has no datastore `{name}`",
            hint="leave `datastore` out of the target: then gofer makes one",
        )
    container = str(found.get("containerName") or found.get("filesystem") or "")
    if not container:
        raise CheckFailed(f"the datastore `{name}` holds no blobs: its kind is {found.get('datastoreType')}")
    by_sas = (found.get("credentials") or {}).get("credentialsType") == "Sas"
    return UserDatastore(str(found.get("accountName") or ""), container, by_sas)


def own_end(arm: Arm, workspace: Workspace, name: str) -> float | None:
    """When the SAS of the datastore ends; None when the datastore has no SAS or the SAS names no end.

    Reads the secret. The right to run jobs does not include the right to do this.
    """
    if not read_user_datastore(arm, workspace, name).by_sas:
        return None
    answer = arm.post(f"{_path(workspace, name)}/listSecrets", names.DATASTORES_API)
    token = str(answer.get("sasToken") or "")
    # From here on, messages and logs hide the signature.
    remember(token)
    return _sas_end(token)


def _path(workspace: Workspace, name: str) -> str:
    return f"{workspace.id}/datastores/{name}"


class Datastores:
    """Makes missing datastores and renews those that end too soon.

    Never shortens a signature that others use.
    """

    def __init__(self, service: Service, *, by_identity: bool) -> None:
        self._service = service
        self._by_identity = by_identity

    def check_own(self, name: str, place: BlobPlace) -> None:
        """As `UserDatastore.check`. Asks the service once for each name and remembers the answer."""
        known = self._service.known.get("own datastores", name)
        if known:
            own = UserDatastore(*known)
        else:
            own = read_user_datastore(self._service.arm, self._service.workspace, name)
        own.check(name, place)
        self._service.known.put("own datastores", name, list(own))

    def ensure(self, name: str, place: BlobPlace, spec: StoreSpec) -> None:
        """Make the datastore `name` open `place` for at least as long as `spec` does. Idempotent.

        A datastore that this machine wrote with another key or signature is written again: the old key may
        have been revoked.
        """
        until = 0.0 if self._by_identity else sas_end(spec)
        known = _known(self._service.known.get("datastores", name))
        is_changed = known is not None and known[1] != place.opener
        if known is not None and not is_changed and _is_enough(known[0], until):
            return
        path = _path(self._service.workspace, name)
        if not is_changed:
            held = _until(self._service.arm.find(path, names.DATASTORES_API))
            if held is not None and _is_enough(held, until):
                self._service.known.put("datastores", name, [held, place.opener])
                return
        body = datastore_body(place, spec, until, self._service.arm.cloud.storage_suffix)
        self._service.arm.put(path, names.DATASTORES_API, body, skipValidation="true")
        self._service.known.put("datastores", name, [until, place.opener])


def datastore_body(place: BlobPlace, spec: StoreSpec, until: float, storage_suffix: str) -> dict[str, Any]:
    """The request body. Pure. The body holds the SAS, so it is never printed."""
    sas = None if until == 0.0 else spec.get("sas")
    credentials: dict[str, Any] = {"credentialsType": "None"}
    if sas:
        secrets = {"secretsType": "Sas", "sasToken": bare_token(sas)}
        credentials = {"credentialsType": "Sas", "secrets": secrets}
    parts = urlsplit(place.endpoint)
    # A datastore names an endpoint by its suffix: `core.windows.net` for ACCOUNT.blob.core.windows.net.
    own = (parts.hostname or "").removeprefix(f"{place.account}.blob.")
    return {
        "properties": {
            "datastoreType": "AzureBlob",
            "accountName": place.account,
            "containerName": place.container,
            "endpoint": own if own != parts.hostname else storage_suffix,
            "protocol": parts.scheme,
            "credentials": credentials,
            "description": "gofer's runs",
            "tags": {_UNTIL: f"{until:.0f}"},
        }
    }


def sas_end(spec: StoreSpec) -> float:
    """When the credential in `spec` ends; ten years from now when it names no end."""
    ends_at = _sas_end(spec.get("sas") or "")
    return time.time() + 10 * 365 * 86400.0 if ends_at is None else ends_at


def _sas_end(token: str) -> float | None:
    ends = sas_fields(bare_token(token)).get("se")
    return parse_time(ends if ends.endswith("Z") else f"{ends}Z") if ends else None


def _is_enough(held: float, wanted: float) -> bool:
    """Whether a signature that ends at `held` needs no renewal; `wanted` 0 means access by an identity."""
    return wanted == 0.0 or held >= wanted - _SLACK_S


def _known(value: Any) -> tuple[float, str] | None:
    """The end and the opener that this machine remembers, or None."""
    return (float(value[0]), str(value[1])) if isinstance(value, list) and len(value) == 2 else None


def _until(found: dict[str, Any] | None) -> float | None:
    """The end that gofer wrote into the datastore; None for no datastore or one that gofer did not make."""
    tags = ((found or {}).get("properties") or {}).get("tags") or {}
    try:
        return float(tags[_UNTIL])
    except (KeyError, ValueError):
        return None
