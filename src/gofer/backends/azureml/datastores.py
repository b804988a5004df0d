"""The datastores through which the service reads and writes gofer's stores: one for each container."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from gofer.agent.objects.azure_auth import bare_token, sas_fields
from gofer.backends.azureml import names
from gofer.backends.azureml.service import Service
from gofer.backends.registry import BlobPlace
from gofer.text import parse_time

# So much of what is lent may have passed before it is lent anew.
_SLACK_S = 3600.0
_UNTIL = "gofer_until"


class Datastores:
    """Makes what is missing and renews what would end too soon; never shortens what others rely on."""

    def __init__(self, service: Service, *, by_identity: bool) -> None:
        self._service = service
        self._by_identity = by_identity

    def ensure(self, name: str, place: BlobPlace, spec: dict[str, Any]) -> None:
        """Have the datastore `name` open `place` as long as `spec` does. Idempotent.

        What this machine opened by another key or signature before is made anew: the old one may be revoked.
        """
        until = 0.0 if self._by_identity else sas_end(spec)
        known = _known(self._service.known.get("datastores", name))
        is_changed = known is not None and known[1] != place.opener
        if known is not None and not is_changed and _is_enough(known[0], until):
            return
        path = f"{self._service.workspace.id}/datastores/{name}"
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
    ends = sas_fields(bare_token(spec.get("sas") or "")).get("se")
    return (
        parse_time(ends if ends.endswith("Z") else f"{ends}Z") if ends else time.time() + 10 * 365 * 86400.0
    )


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
