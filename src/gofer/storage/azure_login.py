"""Azure AD: tokens of whoever is signed in, signatures made with them, and the cloud of the login."""

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
# The service gives no delegation key for longer.
_DELEGATION_S = 7 * 86400.0

Token = tuple[str, float]


def default_endpoint(account: str, environ: Mapping[str, str]) -> str:
    """The URL of an account's blob service in the cloud that the login is in."""
    return f"https://{account}.blob.{find_cloud(environ, _folder(environ)).storage_suffix}"


def _folder(environ: Mapping[str, str]) -> str:
    return str(Paths.from_environment(environ).engine_dir / "azure")


def token_source(entry: OpenedStore, environ: Mapping[str, str]) -> Callable[[], Token]:
    """A function that gets a token and the time of its end; CredentialError when nobody is signed in."""

    folder = _folder(environ)
    given: list[str] = []

    def fetch() -> Token:
        authority = find_cloud(environ, folder).authority
        credential = AzureCredential(folder, environ, authority=authority, remember=remember)
        try:
            token = credential.token(_SCOPE)
            if token.value in given:  # the service did not take it
                credential.forget(_SCOPE)
                token = credential.token(_SCOPE)
        except NobodySignedIn as error:
            raise _nobody(entry, error) from None
        given[:] = [token.value]
        return token

    return fetch


def delegated_sas(client: Client, endpoint_path: str, account: str, terms: SasTerms) -> str:
    """A SAS signed with a key that the service lends to whoever is signed in."""
    # The key is asked for from an hour ago on, and the SAS has no start: this clock may be ahead.
    began = time.time() - 3600
    starts, ends = utc(began), utc(min(terms.expires_at, began + _DELEGATION_S))
    lent = _delegation_key(client, endpoint_path, starts, ends)
    place = f"/blob/{account}/{terms.container}" + (f"/{terms.name}" if terms.name else "")
    owner = [lent[name] for name in _KEY_FIELDS]
    # Between the lines of the key and the version: authorized and unauthorized object, correlation, address,
    # protocol.
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
        f"nothing opens the store {entry.label}: it has no `key` or `sas`, and {error.message}",
        hint=f"{sign_in}, or add `sas: ${{secret:NAME}}` or `key: ${{secret:NAME}}` beside its `url`",
    )
