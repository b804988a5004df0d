"""The tenant of a subscription, which Resource Manager names to anybody who asks without a token."""

from __future__ import annotations

import re

from gofer.errors import CredentialError, Unreachable
from gofer.objects.wire import Wire
from gofer.transport.azure.cloud import Cloud

_API = "2022-12-01"
_TIMEOUT_S = 20.0
_TENANT = re.compile(r'authorization_uri="[^"]*/([0-9a-fA-F-]{36})"')


def tenant_of(cloud: Cloud, subscription: str) -> str:
    """The id of the tenant. Blocking. CredentialError when the service does not name it."""
    try:
        wire = Wire(cloud.arm, silence_timeout_s=_TIMEOUT_S)
        answer = wire.send("GET", f"/subscriptions/{subscription}?api-version={_API}", {})
        answer.read()
        wire.close()
    except (OSError, ValueError) as error:
        raise Unreachable(f"Azure cannot be reached: {error}", hint="check the network") from None
    found = _TENANT.search(answer.headers.get("www-authenticate", ""))
    if found is None:
        raise CredentialError(
            f"Azure does not say to which tenant the subscription {subscription} belongs",
            hint="set `AZURE_TENANT_ID`",
        )
    return found[1]
