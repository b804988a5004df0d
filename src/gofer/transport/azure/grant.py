"""Tokens for an application that proves itself by a secret, or by a token of a service that vouches for it.

OAuth 2.0's client credentials are one request. azure-identity makes the same one, and to import it takes as
long as the rest of a command: in a pipeline, where every login is new, that would be paid every time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from gofer.core.json_text import parse_json
from gofer.core.numerals import parse_count
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
    """By the variable `proof`: SECRET or VOUCHED. CredentialError when it is not let in, Unreachable when the
    service that signs in does not answer.
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
            raise Unreachable(f"{_host(url)} answers with something else than a token") from None
    raise not_let_in(f"the service principal {client}", str(answer.get("error_description") or ""))


def not_let_in(whose: str, words: str) -> CredentialError:
    """Of what the service said only the code is told: its message is a page, and may repeat what was sent."""
    code = _CODE.search(words)
    return CredentialError(
        f"{whose} is not let in{f' ({code[0]})' if code else ''}",
        hint="look at AZURE_CLIENT_ID, AZURE_TENANT_ID and what goes with them",
    )


def _vouched(path: str) -> dict[str, str]:
    """Read anew each time: the service that vouches writes another before one ends."""
    try:
        with open(path, encoding="ascii") as file:
            return {"client_assertion_type": _VOUCHED, "client_assertion": file.read().strip()}
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "it holds no token"
        raise GoferError(f"`{path}` cannot be read: {words}", hint=f"`{VOUCHED}` names it") from None


def _ask(url: str, body: bytes, whose: str) -> tuple[int, dict[str, Any]]:
    """The answer, once the service has its wits about it."""
    if not url.startswith("https://"):
        raise CredentialError(
            f"`{_host(url)}` would be sent a secret without encryption",
            hint="the address that signs in must begin with https://",
        )
    status, pauses_s = 0, [_FIRST_PAUSE_S * 2**number for number in range(_TRIES - 1)]
    for pause_s in (*pauses_s, None):
        status, answer, wanted_s = _ask_once(url, body)
        if 0 < status < 500 and status != 429:
            return status, answer
        if pause_s is not None:
            time.sleep(min(max(pause_s, wanted_s), _LONGEST_PAUSE_S))
    said = f": it answers {status}" if status else ""
    raise Unreachable(
        f"the service that signs {whose} in does not answer{said}", hint="is there a network? a proxy?"
    )


def _ask_once(url: str, body: bytes) -> tuple[int, dict[str, Any], float]:
    """Status, answer, and the seconds that it wants to be left alone; 0 for the status when none came."""
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
