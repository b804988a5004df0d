"""Tokens of azure-identity: for service principals with a certificate, and for managed identities."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from gofer.errors import GoferError, Unreachable
from gofer.transport.azure.grant import not_let_in
from gofer.transport.azure.tokens import Token


def certified(environ: Mapping[str, str], authority: str, scope: str, claims: str | None) -> Token:
    """A token for a service principal with the certificate in AZURE_CLIENT_CERTIFICATE_PATH. Blocking."""
    whose = {"tenant_id": environ["AZURE_TENANT_ID"], "client_id": environ["AZURE_CLIENT_ID"]}
    proof = {
        "certificate_path": environ["AZURE_CLIENT_CERTIFICATE_PATH"],
        "password": environ.get("AZURE_CLIENT_CERTIFICATE_PASSWORD"),
    }
    more: dict[str, Any] = {"authority": authority, "disable_instance_discovery": True, **_trust(environ)}
    made = _package().CertificateCredential(**whose, **proof, **more)
    return _ask(made, f"the service principal {whose['client_id']}", scope, claims)


def managed(client: str | None, scope: str, claims: str | None) -> Token:
    """A token for the identity of the machine or job in which this process runs. Blocking."""
    made = _package().ManagedIdentityCredential(**({"client_id": client} if client else {}))
    return _ask(made, "the managed identity", scope, claims)


def _package() -> Any:
    try:
        import azure.identity
    except ImportError:
        from gofer.transport.azure.credential import not_installed

        raise not_installed("this kind of login to Azure") from None
    # azure-identity logs a warning and also raises it; the caller shows the exception, so drop the log line.
    logging.getLogger("azure.identity").addHandler(logging.NullHandler())
    return azure.identity


def _trust(environ: Mapping[str, str]) -> dict[str, str]:
    """The certificates to trust. azure-identity reads REQUESTS_CA_BUNDLE itself, but not SSL_CERT_FILE."""
    named = environ.get("SSL_CERT_FILE")
    return {"connection_verify": named} if named and not environ.get("REQUESTS_CA_BUNDLE") else {}


def _ask(made: Any, whose: str, scope: str, claims: str | None) -> Token:
    from azure.core.exceptions import AzureError, ClientAuthenticationError

    try:
        found = made.get_token(scope, **({"claims": claims} if claims else {}))
    except ClientAuthenticationError as error:
        raise not_let_in(whose, str(error)) from None
    except AzureError:
        raise Unreachable(f"the login service does not answer for {whose}") from None
    except (OSError, ValueError) as error:
        raise GoferError(f"{whose} cannot be used: {error}") from None
    return Token(str(found.token), float(found.expires_on))
