"""Tokens of the Azure command line, in the profile that AZURE_CONFIG_DIR names."""

from __future__ import annotations

from collections.abc import Mapping

from gofer.core.json_text import parse_json
from gofer.errors import CredentialError, GoferError, Interrupted, Unreachable
from gofer.text import parse_time
from gofer.transport import process
from gofer.transport.azure.profile import name_of
from gofer.transport.azure.tokens import Token

_TIMEOUT_S = 60.0
# As `az` words it, in the versions 2.32 to 2.80.
_OUTSIDE = ("connection", "Max retries", "getaddrinfo", "timed out", "proxy")


def token(scope: str, environ: Mapping[str, str]) -> Token:
    """CredentialError when nobody is signed in, or there is no `az`; Unreachable when it reaches nobody,
    or does not answer.
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
            f"`az` has not given a token after {_TIMEOUT_S:g} s", hint="is there a network? a VPN? a proxy?"
        ) from None
    except GoferError:
        raise NobodySignedIn(name_of(environ)) from None
    if done.status != 0:
        said = done.stderr.decode("utf-8", "replace")
        if any(word in said for word in _OUTSIDE):
            raise Unreachable(
                "`az` cannot reach the service that signs people in", hint="is there a network? a proxy?"
            )
        raise NobodySignedIn(name_of(environ))
    return _read(done.stdout)


def _read(output: bytes) -> Token:
    try:
        found = parse_json(output)
        ends = found.get("expires_on")
        return Token(str(found["accessToken"]), float(ends) if ends else parse_time(found["expiresOn"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CredentialError(
            "`az account get-access-token` answers with something else than a token",
            hint="`az version` says which it is; 2.32 and newer are known",
        ) from None
