"""Stores opened by a login to Azure AD: tokens, signatures made with them, and the cloud of the login."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from xml.etree import ElementTree

from gofer.config.paths import Paths
from gofer.config.redact import remember
from gofer.errors import CredentialError
from gofer.objects.azure_auth import VERSION, SasTerms, signature, utc
from gofer.objects.client import Client, HttpRequest
from gofer.objects.names import in_query
from gofer.objects.wire import HttpResponse
from gofer.storage.credentials import OpenedStore
from gofer.transport.azure.cloud import find_cloud
from gofer.transport.azure.credential import AzureCredential, NobodySignedIn
from gofer.transport.azure.profile import DEFAULT, login_command

_SCOPE = "https://storage.azure.com/.default"
# The longest time for which the service gives a delegation key.
_DELEGATION_S = 7 * 86400.0

Token = tuple[str, float]


def default_endpoint(account: str, environ: Mapping[str, str]) -> str:
    """The URL of an account's blob service in the cloud of the login."""
    return f"https://{account}.blob.{find_cloud(environ, _folder(environ)).storage_suffix}"


def _folder(environ: Mapping[str, str]) -> str:
    return str(Paths.from_environment(environ).queue_home / "azure")


def token_source(entry: OpenedStore, environ: Mapping[str, str]) -> Callable[[], Token]:
    """A function that returns a token and its end. It blocks; CredentialError when nobody is signed in."""

    folder = _folder(environ)
    used: list[str] = []

    def fetch() -> Token:
        authority = find_cloud(environ, folder).authority
        credential = AzureCredential(folder, environ, authority=authority, remember=remember)
        try:
            token = credential.token(_SCOPE)
            if token.value in used:  # a second call for the same token means that the service refused it
                credential.forget(_SCOPE)
                token = credential.token(_SCOPE)
        except NobodySignedIn as error:
            raise _nobody(entry, error) from None
        used[:] = [token.value]
        return token

    return fetch


def delegated_sas(client: Client, endpoint_path: str, account: str, terms: SasTerms) -> str:
    """A SAS signed with a delegation key, which the service gives to the user who is signed in. Blocking."""
    # This clock may be ahead: the key starts an hour ago, and the SAS names no start.
    began = time.time() - 3600
    starts, ends = utc(began), utc(min(terms.expires_at, began + _DELEGATION_S))
    lent = _delegation_key(client, endpoint_path, starts, ends)
    place = f"/blob/{account}/{terms.container}" + (f"/{terms.name}" if terms.name else "")
    owner = [lent[name] for name in _KEY_FIELDS]
    # The format between the fields of the key and the version: authorized and unauthorized object id,
    # correlation id, addresses, protocol.
    lines = [terms.permissions, "", ends, place, *owner, "", "", "", "", "", VERSION, terms.resource]
    signed = signature(base64.b64decode(lent["Value"]), [*lines, "", "", "", "", "", "", ""])
    fields = {"sv": VERSION, "se": ends, **terms.scope, "sp": terms.permissions}
    fields.update(zip(("skoid", "sktid", "skt", "ske", "sks", "skv"), owner, strict=True))
    return "&".join(f"{name}={in_query(value)}" for name, value in {**fields, "sig": signed}.items())


_KEY_FIELDS = ("SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion")


def _delegation_key(client: Client, path: str, starts: str, ends: str) -> dict[str, str]:
    body = f"<KeyInfo><Start>{starts}</Start><Expiry>{ends}</Expiry></KeyInfo>".encode()
    query = {"restype": "service", "comp": "userdelegationkey"}
    text = client.call(HttpRequest("POST", path or "/", query, {}, body), HttpResponse.read)
    return {child.tag: child.text or "" for child in ElementTree.fromstring(text)}


def _nobody(entry: OpenedStore, error: NobodySignedIn) -> CredentialError:
    sign_in = "`az login`" if error.profile == DEFAULT else login_command(error.profile)
    return CredentialError(
        f"the store {entry.label} cannot be opened: it has no `key` or `sas`, and {error.message}",
        hint=f"{sign_in}, or add `sas: ${{secret:NAME}}` or `key: ${{secret:NAME}}` next to its `url`",
    )
