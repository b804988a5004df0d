"""Tenants: a token of one opens nothing in the subscriptions of another."""

from __future__ import annotations

import re
from urllib.parse import unquote

from simulators.azure.documents import Documents
from simulators.azure.messages import Json, Refused
from simulators.azure.tokens import TENANT

# Words in place of a tenant that mean the tenant of the login.
_ANY = ("common", "organizations", "consumers")
_SUBSCRIPTION = re.compile(r"/subscriptions/([^/?]+)", re.IGNORECASE)


def named(word: str) -> str:
    """The tenant that an address of the login service means."""
    return TENANT if word in _ANY else word


def check(documents: Documents, path: str, claims: Json) -> None:
    """Refused with 401, as ARM says it, for a token of another tenant than the path's subscription."""
    found = _SUBSCRIPTION.search(unquote(path))
    owner = _tenant_of(documents, found[1]) if found else None
    shown = str(claims.get("tid"))
    if owner is None or owner == shown:
        return
    issuer = "https://sts.windows.net"
    message = (
        f"The access token is from the wrong issuer '{issuer}/{shown}/'. It must match the tenant "
        f"'{issuer}/{owner}/' associated with this subscription."
    )
    words = f'Bearer authorization_uri="https://login.windows.net/{owner}", error="invalid_token"'
    raise Refused(401, "InvalidAuthenticationTokenTenant", message, {"WWW-Authenticate": words})


def _tenant_of(documents: Documents, subscription: str) -> str | None:
    """That of its first workspace; None for one that nobody made."""
    under = f"/subscriptions/{subscription}/"
    return next((str(one["properties"]["tenantId"]) for one in documents.all("workspace", under)), None)
