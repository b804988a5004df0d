"""The datastores through which the service reads and writes gofer's stores: one for each container."""

from __future__ import annotations

import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gofer.backends.azureml import names
from gofer.backends.azureml.names import Workspace
from gofer.backends.azureml.service import Service
from gofer.backends.registry import BlobPlace
from gofer.config.redact import remember
from gofer.errors import CheckFailed
from gofer.objects.azure_auth import bare_token, sas_fields
from gofer.text import parse_time
from gofer.transport.azure.arm import Arm

# So much of what is lent may have passed before it is lent anew.
_SLACK_S = 3600.0
_UNTIL = "gofer_until"
# What to do about the end of a SAS in a datastore of the person's own.
RENEW = "put another into it, or leave `datastore` out of the target: then gofer makes one"


class Own(NamedTuple):
    """A datastore that the person looks after: the container that it opens, and whether by a signature."""

    account: str
    container: str
    by_sas: bool = False

    def check(self, name: str, place: BlobPlace) -> None:
        """CheckFailed when it opens another container than that of the target's store."""
        if (self.account, self.container) != (place.account, place.container):
            raise CheckFailed(
                f"the datastore `{name}` is the container `{self.container}` of the account "
                f"`{self.account}`, and the target's store is `{place.container}` of `{place.account}`",
                hint="name another `store` or another `datastore` in the target, or leave `datastore` out",
            )


def read_own(arm: Arm, workspace: Workspace, name: str) -> Own:
    """As the workspace has it; CheckFailed when it has none of that name, or one that holds no blobs."""
    found = (arm.find(_path(workspace, name), names.DATASTORES_API) or {}).get("properties")
    if found is None:
        raise CheckFailed(
            f"the workspace `{workspace.name}` has no datastore `{name}`",
            hint="leave `datastore` out of the target: then gofer makes one",
        )
    container = str(found.get("containerName") or found.get("filesystem") or "")
    if not container:
        raise CheckFailed(
            f"the datastore `{name}` holds no blobs: it is of the kind {found.get('datastoreType')}"
        )
    by_sas = (found.get("credentials") or {}).get("credentialsType") == "Sas"
    return Own(str(found.get("accountName") or ""), container, by_sas)


def own_end(arm: Arm, workspace: Workspace, name: str) -> float | None:
    """When the signature that opens it ends; None where none does, or it says nothing.

    It must be read for that, which not everybody may who may run jobs.
    """
    if not read_own(arm, workspace, name).by_sas:
        return None
    said = arm.post(f"{_path(workspace, name)}/listSecrets", names.DATASTORES_API)
    token = str(said.get("sasToken") or "")
    remember(token)
    return _sas_end(token)


def _path(workspace: Workspace, name: str) -> str:
    return f"{workspace.id}/datastores/{name}"


class Datastores:
    """Makes what is missing and renews what would end too soon; never shortens what others rely on."""

    def __init__(self, service: Service, *, by_identity: bool) -> None:
        self._service = service
        self._by_identity = by_identity

    def check_own(self, name: str, place: BlobPlace) -> None:
        """As `Own.check`; asked once."""
        known = self._service.known.get("own datastores", name)
        own = Own(*known) if known else read_own(self._service.arm, self._service.workspace, name)
        own.check(name, place)
        self._service.known.put("own datastores", name, list(own))

    def ensure(self, name: str, place: BlobPlace, spec: dict[str, Any]) -> None:
        """Have the datastore `name` open `place` as long as `spec` does. Idempotent.

        What this machine opened by another key or signature before is made anew: the old one may be revoked.
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


def datastore_body(
    place: BlobPlace, spec: dict[str, Any], until: float, storage_suffix: str
) -> dict[str, Any]:
    """The request body. Pure; it holds the SAS, so it is never printed."""
    sas = None if until == 0.0 else spec.get("sas")
    credentials: dict[str, Any] = {"credentialsType": "None"}
    if sas:
        secrets = {"secretsType": "Sas", "sasToken": bare_token(sas)}
        credentials = {"credentialsType": "Sas", "secrets": secrets}
    parts = urlsplit(place.endpoint)
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


def sas_end(spec: dict[str, Any]) -> float:
    """When what the spec lends ends; far away where it does not say."""
    ends_at = _sas_end(spec.get("sas") or "")
    return time.time() + 10 * 365 * 86400.0 if ends_at is None else ends_at


def _sas_end(token: str) -> float | None:
    ends = sas_fields(bare_token(token)).get("se")
    return parse_time(ends if ends.endswith("Z") else f"{ends}Z") if ends else None


def _is_enough(held: float, wanted: float) -> bool:
    """One that opens by an identity has no end, and a name of its own."""
    return wanted == 0.0 or held >= wanted - _SLACK_S


def _known(value: Any) -> tuple[float, str] | None:
    """The end and the opener that this machine remembers; None where it remembers neither."""
    return (float(value[0]), str(value[1])) if isinstance(value, list) and len(value) == 2 else None


def _until(found: dict[str, Any] | None) -> float | None:
    """As gofer wrote it down; None for a datastore that is not there or is somebody else's."""
    tags = ((found or {}).get("properties") or {}).get("tags") or {}
    try:
        return float(tags[_UNTIL])
    except (KeyError, ValueError):
        return None
