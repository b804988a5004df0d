"""Tokens from the Azure command line, `az`, in the profile that AZURE_CONFIG_DIR names."""

from __future__ import annotations

from collections.abc import Mapping

from gofer.core.json_text import parse_json
from gofer.errors import CredentialError, GoferError, Interrupted, Unreachable
from gofer.text import parse_time
from gofer.transport import process
from gofer.transport.azure.profile import name_of
from gofer.transport.azure.tokens import Token

_TIMEOUT_S = 60.0
# Words in the messages of `az` 2.32 to 2.80 for problems of the network.
_OUTSIDE = ("connection", "Max retries", "getaddrinfo", "timed out", "proxy")


def token(scope: str, environ: Mapping[str, str]) -> Token:
    """A token for the scope. Blocking.

    Raises CredentialError when nobody is signed in or `az` is not installed, Unreachable when `az` cannot
    reach the login service or does not answer.
    """
    from gofer.transport.azure.credential import NobodySignedIn

    argv = ["az", "account", "get-access-token", "--resource", scope.removesuffix("/.default")]
    argv += ["--output", "json"]
    if environ.get("AZURE_TENANT_ID"):
        argv += ["--tenant", environ["AZURE_TENANT_ID"]]
    try:
        done = process.run(argv, timeout_s=_TIMEOUT_S, env=dict(environ))
    except Interrupted:
        raise Unreachable(
            f"`az` gave no token within {_TIMEOUT_S:g} s", hint="check the network, the VPN and the proxy"
        ) from None
    except GoferError:
        raise NobodySignedIn(name_of(environ)) from None
    if done.status != 0:
        error_text = done.stderr.decode("utf-8", "replace")
        if any(word in error_text for word in _OUTSIDE):
            raise Unreachable("`az` cannot reach the login service", hint="check the network and the proxy")
        raise NobodySignedIn(name_of(environ))
    return _read(done.stdout)


def _read(output: bytes) -> Token:
    try:
        found = parse_json(output)
        ends = found.get("expires_on")
        # `expires_on` is newer and in seconds; `expiresOn` is a local time in older versions of `az`.
        return Token(str(found["accessToken"]), float(ends) if ends else parse_time(found["expiresOn"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CredentialError(
            "`az account get-access-token` printed something other than a token",
            hint="check its version with `az version`; 2.32 and newer work",
        ) from None
