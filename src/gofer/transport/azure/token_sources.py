"""Tokens from each source that needs no login kept by gofer: service principals, managed identities, `az`.

For a service principal with a secret, or with a token of a trusted service, gofer sends OAuth 2.0's single
request itself: azure-identity sends the same request, but importing it takes as long as the rest of a
command, and in a pipeline every login is new. Certificates and managed identities need azure-identity. `az`
uses the profile that AZURE_CONFIG_DIR names.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from gofer.core.json_text import parse_count, parse_json
from gofer.errors import CredentialError, GoferError, Interrupted, Unreachable
from gofer.objects.wire import Wire
from gofer.text import parse_time
from gofer.transport import process
from gofer.transport.azure.problems import NobodySignedIn, not_installed
from gofer.transport.azure.profile import name_of
from gofer.transport.azure.tokens import Token

SECRET, VOUCHED = "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"
_VOUCHED = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_TRIES, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5, 0.3, 10.0
_SILENCE_S = 20.0
_CODE = re.compile(r"AADSTS\d+")
_AZ_TIMEOUT_S = 60.0
# Words in the messages of `az` 2.32 to 2.80 for problems of the network.
_AZ_NETWORK_WORDS = ("connection", "Max retries", "getaddrinfo", "timed out", "proxy")


def principal(
    environ: Mapping[str, str], proof: str, authority: str, scope: str, claims: str | None
) -> Token:
    """A token with the proof in the variable `proof`: SECRET or VOUCHED. Blocking.

    Raises CredentialError when the principal is refused, Unreachable when the login service does not answer.
    """
    client = environ["AZURE_CLIENT_ID"]
    form = {"grant_type": "client_credentials", "client_id": client, "scope": scope}
    form |= {"client_secret": environ[SECRET]} if proof == SECRET else _vouched(environ[VOUCHED])
    form |= {"claims": claims} if claims else {}
    url = f"{authority.rstrip('/')}/{quote(environ['AZURE_TENANT_ID'], safe='')}/oauth2/v2.0/token"
    status, answer = _ask(url, urlencode(form).encode(), f"the service principal {client}")
    if status == 200:
        try:
            return Token(str(answer["access_token"]), time.time() + float(answer["expires_in"]))
        except (KeyError, TypeError, ValueError):
            raise Unreachable(f"{_host(url)} answered with something other than a token") from None
    raise not_let_in(f"the service principal {client}", str(answer.get("error_description") or ""))


def not_let_in(whose: str, words: str) -> CredentialError:
    """The error for a refused login.

    Shows only the code of the service's message: the message is long, and may repeat what was sent.
    """
    code = _CODE.search(words)
    return CredentialError(
        f"the login of {whose} is refused{f' ({code[0]})' if code else ''}",
        hint="check AZURE_CLIENT_ID, AZURE_TENANT_ID and the secret, certificate or token file",
    )


def _vouched(path: str) -> dict[str, str]:
    """The token of the trusted service.

    Read for each login: the service replaces the file before it expires.
    """
    try:
        with open(path, encoding="ascii") as file:
            return {"client_assertion_type": _VOUCHED, "client_assertion": file.read().strip()}
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "it contains no token"
        raise GoferError(f"`{path}` cannot be read: {words}", hint=f"see `{VOUCHED}`") from None


def _ask(url: str, body: bytes, whose: str) -> tuple[int, dict[str, Any]]:
    """The answer of the login service, after retries. Unreachable when every try fails."""
    if not url.startswith("https://"):
        raise CredentialError(
            f"the secret would be sent to `{_host(url)}` without encryption",
            hint="the address of the login service must begin with https://",
        )
    status, pauses_s = 0, [_FIRST_PAUSE_S * 2**number for number in range(_TRIES - 1)]
    # Not core.retry: the answers decide, not errors.
    for pause_s in (*pauses_s, None):
        status, answer, wanted_s = _ask_once(url, body)
        if 0 < status < 500 and status != 429:
            return status, answer
        if pause_s is not None:
            time.sleep(min(max(pause_s, wanted_s), _LONGEST_PAUSE_S))
    shown = f": it answered {status}" if status else ""
    raise Unreachable(
        f"the login service does not answer for {whose}{shown}", hint="check the network and the proxy"
    )


def _ask_once(url: str, body: bytes) -> tuple[int, dict[str, Any], float]:
    """Status, answer, and the seconds until the service wants the next try; status 0 without an answer."""
    parts = urlsplit(url)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    try:
        wire = Wire(url, silence_timeout_s=_SILENCE_S)
        try:
            answer = wire.send("POST", parts.path, headers, body)
            text, wanted = answer.read(), answer.headers.get("retry-after", "")
        finally:
            wire.close()
    except (OSError, ValueError):
        return 0, {}, 0.0
    try:
        found = parse_json(text)
    except ValueError:
        found = {}
    known = found if isinstance(found, dict) else {}
    return answer.status, known, float(parse_count(wanted) or 0)


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def certified(environ: Mapping[str, str], authority: str, scope: str, claims: str | None) -> Token:
    """A token for a service principal with the certificate in AZURE_CLIENT_CERTIFICATE_PATH. Blocking."""
    whose = {"tenant_id": environ["AZURE_TENANT_ID"], "client_id": environ["AZURE_CLIENT_ID"]}
    proof = {
        "certificate_path": environ["AZURE_CLIENT_CERTIFICATE_PATH"],
        "password": environ.get("AZURE_CLIENT_CERTIFICATE_PASSWORD"),
    }
    more: dict[str, Any] = {"authority": authority, "disable_instance_discovery": True, **_trust(environ)}
    made = _package().CertificateCredential(**whose, **proof, **more)
    return _ask_package(made, f"the service principal {whose['client_id']}", scope, claims)


def managed(client: str | None, scope: str, claims: str | None) -> Token:
    """A token for the identity of the machine or job in which this process runs. Blocking."""
    made = _package().ManagedIdentityCredential(**({"client_id": client} if client else {}))
    return _ask_package(made, "the managed identity", scope, claims)


def _package() -> Any:
    try:
        import azure.identity
    except ImportError:
        raise not_installed("this kind of login to Azure") from None
    # azure-identity logs a warning and also raises it; the caller shows the exception, so drop the log line.
    logging.getLogger("azure.identity").addHandler(logging.NullHandler())
    return azure.identity


def _trust(environ: Mapping[str, str]) -> dict[str, str]:
    """The certificates to trust. azure-identity reads REQUESTS_CA_BUNDLE itself, but not SSL_CERT_FILE."""
    named = environ.get("SSL_CERT_FILE")
    return {"connection_verify": named} if named and not environ.get("REQUESTS_CA_BUNDLE") else {}


def _ask_package(made: Any, whose: str, scope: str, claims: str | None) -> Token:
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


def az_token(scope: str, environ: Mapping[str, str]) -> Token:
    """A token for the scope. Blocking.

    Raises CredentialError when nobody is signed in or `az` is not installed, Unreachable when `az` cannot
    reach the login service or does not answer.
    """
    argv = ["az", "account", "get-access-token", "--resource", scope.removesuffix("/.default")]
    argv += ["--output", "json"]
    if environ.get("AZURE_TENANT_ID"):
        argv += ["--tenant", environ["AZURE_TENANT_ID"]]
    try:
        done = process.run(argv, timeout_s=_AZ_TIMEOUT_S, env=dict(environ))
    except Interrupted:
        raise Unreachable(
            f"`az` gave no token within {_AZ_TIMEOUT_S:g} s", hint="check the network, the VPN and the proxy"
        ) from None
    except GoferError:
        raise NobodySignedIn(name_of(environ)) from None
    if done.status != 0:
        error_text = done.stderr.decode("utf-8", "replace")
        if any(word in error_text for word in _AZ_NETWORK_WORDS):
            raise Unreachable("`az` cannot reach the login service", hint="check the network and the proxy")
        raise NobodySignedIn(name_of(environ))
    return _read_az(done.stdout)


def _read_az(output: bytes) -> Token:
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
