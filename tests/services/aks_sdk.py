"""The official clients of AKS, of resource groups and of quotas, unchanged, at the simulator."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from azure.core.credentials import AccessToken
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.containerservice import ContainerServiceClient
from azure.mgmt.resource.resources import ResourceManagementClient

from services.azure import Azure
from simulators.azure.resources import SUBSCRIPTION


class StaticLogin:
    """A token of the simulator, as a credential of the SDK."""

    def __init__(self, azure: Azure) -> None:
        self._token = azure.token()

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        return AccessToken(self._token, int(time.time()) + 3000)


def _words(azure: Azure) -> dict[str, Any]:
    scopes = ["https://management.azure.com/.default"]
    return {"base_url": azure.base, "credential_scopes": scopes, "connection_verify": str(azure.ca)}


def containers(azure: Azure) -> ContainerServiceClient:
    return ContainerServiceClient(StaticLogin(azure), SUBSCRIPTION, **_words(azure))


def resources(azure: Azure) -> ResourceManagementClient:
    return ResourceManagementClient(StaticLogin(azure), SUBSCRIPTION, **_words(azure))


def compute(azure: Azure) -> ComputeManagementClient:
    return ComputeManagementClient(StaticLogin(azure), SUBSCRIPTION, **_words(azure))


def unknown_fields(value: Any, path: str = "") -> Iterator[str]:
    """The names in a model of the SDK, or in what it holds, that the SDK's models do not know."""
    if hasattr(value, "_attr_to_rest_field"):
        attributes = {field._rest_name: name for name, field in value._attr_to_rest_field.items()}
        for name in value:
            where = f"{path}.{name}".lstrip(".")
            if name in attributes:
                yield from unknown_fields(getattr(value, attributes[name]), where)
            else:
                yield where
    elif isinstance(value, list):
        for one in value:
            yield from unknown_fields(one, f"{path}[]")
    elif isinstance(value, Mapping) and not path.endswith(("tags", "nodeLabels")):
        for name, one in value.items():
            yield from unknown_fields(one, f"{path}.{name}")
