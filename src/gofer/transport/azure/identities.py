"""Tokens of azure-identity: of service principals with a certificate, and of managed identities."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from gofer.errors import GoferError, Unreachable
from gofer.transport.azure.grant import not_let_in
from gofer.transport.azure.tokens import Token


def certified(environ: Mapping[str, str], authority: str, scope: str, claims: str | None) -> Token:
    """Of a service principal, by the certificate that AZURE_CLIENT_CERTIFICATE_PATH names."""
    whose = {"tenant_id": environ["AZURE_TENANT_ID"], "client_id": environ["AZURE_CLIENT_ID"]}
    proof = {
        "certificate_path": environ["AZURE_CLIENT_CERTIFICATE_PATH"],
        "password": environ.get("AZURE_CLIENT_CERTIFICATE_PASSWORD"),
    }
    more: dict[str, Any] = {"authority": authority, "disable_instance_discovery": True, **_trust(environ)}
    made = _package().CertificateCredential(**whose, **proof, **more)
    return _ask(made, f"the service principal {whose['client_id']}", scope, claims)


def managed(client: str | None, scope: str, claims: str | None) -> Token:
    """Of the machine or the job that this process runs in."""
    made = _package().ManagedIdentityCredential(**({"client_id": client} if client else {}))
    return _ask(made, "the managed identity", scope, claims)


def _package() -> Any:
    try:
        import azure.identity
    except ImportError:
        from gofer.transport.azure.credential import not_installed

        raise not_installed("this way of signing in to Azure") from None
    # What it warns of is raised as well, and is told once, by who asked.
    logging.getLogger("azure.identity").addHandler(logging.NullHandler())
    return azure.identity


def _trust(environ: Mapping[str, str]) -> dict[str, str]:
    """azure-identity knows REQUESTS_CA_BUNDLE by itself."""
    named = environ.get("SSL_CERT_FILE")
    return {"connection_verify": named} if named and not environ.get("REQUESTS_CA_BUNDLE") else {}


def _ask(made: Any, whose: str, scope: str, claims: str | None) -> Token:
    from azure.core.exceptions import AzureError, ClientAuthenticationError

    try:
        found = made.get_token(scope, **({"claims": claims} if claims else {}))
    except ClientAuthenticationError as error:
        raise not_let_in(whose, str(error)) from None
    except AzureError:
        raise Unreachable(f"the service that signs {whose} in does not answer") from None
    except (OSError, ValueError) as error:
        raise GoferError(f"{whose} cannot be used: {error}") from None
    return Token(str(found.token), float(found.expires_on))
