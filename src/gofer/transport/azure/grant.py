"""Tokens for a service principal that proves itself by a secret, or by a token of a trusted service.

OAuth 2.0's client credentials are a single request. azure-identity sends the same request, but importing it
takes as long as the rest of a command, and in a pipeline every login is new.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from gofer.core.json_text import parse_count, parse_json
from gofer.errors import CredentialError, GoferError, Unreachable
from gofer.objects.wire import Wire
from gofer.transport.azure.tokens import Token

SECRET, VOUCHED = "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"
_VOUCHED = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_TRIES, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5, 0.3, 10.0
_SILENCE_S = 20.0
_CODE = re.compile(r"AADSTS\d+")


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
