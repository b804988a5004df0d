"""Logins by device code: a user types a code in a browser, and gofer keeps the token that renews others.

Uses msal directly. azure-identity is built on msal, but does not let the caller choose where its cache is
stored. Each profile has one file of mode 0600.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Mapping
from typing import Any

from gofer.core import files, private_folder
from gofer.errors import CredentialError, Unreachable
from gofer.transport.azure.problems import not_installed
from gofer.transport.azure.profile import TENANT_VARIABLE, folder_of, in_profile, login_command, name_of
from gofer.transport.azure.tokens import Token

# The public client of the Azure command line, which every tenant knows.
_CLIENT = "04b07795-8ddb-461a-bbee-02f9e1bf7b46"


def is_kept(folder: str, environ: Mapping[str, str]) -> bool:
    return os.path.exists(_path(folder, environ))


def forget(folder: str, environ: Mapping[str, str]) -> bool:
    """Remove the kept login; False when there was none."""
    try:
        os.unlink(_path(folder, environ))
    except OSError:
        return False
    return True


def sign_in(
    folder: str, environ: Mapping[str, str], authority: str, scope: str, say: Callable[[str], None]
) -> Token:
    """Sign in.

    Blocks until the user has typed the code; CredentialError when the login fails or is not finished.
    """
    cache = _cache()
    application = _application(cache, environ, authority)
    flow = _reached(lambda: application.initiate_device_flow(scopes=[scope]))
    if "user_code" not in flow:
        raise CredentialError(f"the login service gave no code: {_words(flow)}")
    say(str(flow["message"]))
    found = _reached(lambda: application.acquire_token_by_device_flow(flow))
    if "access_token" not in found:
        raise CredentialError(
            f"the login was not completed: {_words(found)}", hint=f"{login_command(name_of(environ))} again"
        )
    _keep(folder, environ, cache)
    return _token(found)


def silent(folder: str, environ: Mapping[str, str], authority: str, scope: str, claims: str | None) -> Token:
    """A token from the kept login, without the user; CredentialError when the login has expired."""
    cache = _cache()
    text = _read(_path(folder, environ))
    cache.deserialize(text)
    application = _application(cache, environ, authority)
    accounts = application.get_accounts()
    more = {"claims_challenge": claims} if claims else {}
    found = (
        _reached(lambda: application.acquire_token_silent([scope], account=accounts[0], **more))
        if accounts
        else None
    )
    if not found or "access_token" not in found:
        name = name_of(environ)
        raise CredentialError(
            f"the login by device code{in_profile(name)} has expired",
            hint=login_command(name, "--device-code"),
        )
    # The login service may have returned a new refresh token, which replaces the kept one.
    if cache.has_state_changed:
        _keep(folder, environ, cache)
    return _token(found)


def _path(folder: str, environ: Mapping[str, str]) -> str:
    name = hashlib.sha256(folder_of(environ).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return os.path.join(folder, "device", f"{name}.json")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            facts = os.fstat(file.fileno())
            # A file that others could write or read is not used.
            if facts.st_uid == os.getuid() and not stat.S_IMODE(facts.st_mode) & 0o077:
                return file.read()
    except (OSError, ValueError):
        pass
    return "{}"


def _keep(folder: str, environ: Mapping[str, str], cache: Any) -> None:
    path = _path(folder, environ)
    private_folder.make_missing(os.path.dirname(path))
    files.write_whole(path, cache.serialize().encode(), mode=0o600)


def _cache() -> Any:
    try:
        import msal  # type: ignore[import-untyped]
    except ImportError:
        raise not_installed("a login by device code") from None
    return msal.SerializableTokenCache()


def _application(cache: Any, environ: Mapping[str, str], authority: str) -> Any:
    import msal

    # `organizations` lets a user of any tenant sign in.
    tenant = environ.get(TENANT_VARIABLE) or "organizations"
    trusted = environ.get("REQUESTS_CA_BUNDLE") or environ.get("SSL_CERT_FILE")
    more = {"verify": trusted} if trusted else {}
    return _reached(
        lambda: msal.PublicClientApplication(
            _CLIENT,
            authority=f"{authority.rstrip('/')}/{tenant}",
            token_cache=cache,
            # Otherwise msal would ask the public cloud about the address of a private cloud.
            instance_discovery=False,
            **more,
        )
    )


def _reached(ask: Callable[[], Any]) -> Any:
    import requests

    try:
        return ask()
    except (requests.RequestException, ValueError) as error:
        raise Unreachable(
            f"the login service cannot be reached: {type(error).__name__}",
            hint="check the network, the proxy, and the tenant in `AZURE_TENANT_ID`",
        ) from None


def _token(found: Mapping[str, Any]) -> Token:
    return Token(str(found["access_token"]), time.time() + float(found["expires_in"]))


def _words(answer: Mapping[str, Any]) -> str:
    return str(answer.get("error_description") or answer.get("error") or "no reason given").partition("\n")[0]
