"""Tokens for the identity that Azure gives to a machine, or to the job that runs on it.

The source is found as in Microsoft's own clients: IDENTITY_ENDPOINT (App Service and similar services),
MSI_ENDPOINT (computes of Azure ML), else the metadata service of virtual machines.
"""

from __future__ import annotations

import calendar
import os
import time
import urllib.error
import urllib.request
from typing import Any, Callable, Dict, Mapping, NamedTuple, Tuple
from urllib.parse import urlencode

from gofer.core.json_text import parse_json
from gofer.core.store_spec import IdentitySpec
from gofer.objects.facts import ObjectsError
from gofer.objects.retry_policy import Policy, Transient, is_worth_it, retry_after_s, retry_request

RESOURCE = "https://storage.azure.com/"
_METADATA = "http://169.254.169.254"
_TIMEOUT_S = 20.0
_POLICY = Policy(tries=6, first_s=0.5, most_s=8.0, patience_s=60.0)
# The metadata service answers with these while an identity is being assigned to the machine.
_NOT_YET = (404, 410)
_DATES = ("%m/%d/%Y %H:%M:%S +00:00", "%m/%d/%Y %I:%M:%S %p +00:00", "%Y-%m-%dT%H:%M:%SZ")


class TokenRequest(NamedTuple):
    """The request for a token. `headers` may hold a secret of the machine."""

    url: str
    headers: Dict[str, str]


def token_source(identity: IdentitySpec) -> Callable[[], Tuple[str, float]]:
    """A function that fetches a token and its end. It blocks, and raises ObjectsError when there is no token.

    `identity` has the `client_id` or the `resource_id` of the identity, where the machine has several.
    """

    def fetch() -> Tuple[str, float]:
        request = token_request(os.environ, identity)
        return retry_request(_POLICY, lambda tried: _ask(request))

    return fetch


def token_request(environ: Mapping[str, str], identity: IdentitySpec) -> TokenRequest:
    """The request that gets a token on this machine. Pure."""
    resource_id = identity.get("resource_id")
    # DEFAULT_IDENTITY_CLIENT_ID is set by Azure ML on computes with a user-assigned identity.
    client = identity.get("client_id") or (not resource_id and environ.get("DEFAULT_IDENTITY_CLIENT_ID"))
    if environ.get("IDENTITY_ENDPOINT") and environ.get("IDENTITY_HEADER"):
        query = {"api-version": "2019-08-01", "client_id": client, "mi_res_id": resource_id}
        headers = {"X-IDENTITY-HEADER": environ["IDENTITY_HEADER"]}
        return TokenRequest(_url(environ["IDENTITY_ENDPOINT"], query), headers)
    if environ.get("MSI_ENDPOINT"):
        query = {"api-version": "2017-09-01", "clientid": client, "mi_res_id": resource_id}
        headers = {"Secret": environ["MSI_SECRET"]} if environ.get("MSI_SECRET") else {"Metadata": "true"}
        return TokenRequest(_url(environ["MSI_ENDPOINT"], query), headers)
    host = environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or _METADATA
    query = {"api-version": "2018-02-01", "client_id": client, "msi_res_id": resource_id}
    return TokenRequest(
        _url(f"{host.rstrip('/')}/metadata/identity/oauth2/token", query), {"Metadata": "true"}
    )


def _url(place: str, query: Mapping[str, object]) -> str:
    fields = {"resource": RESOURCE, **{name: value for name, value in query.items() if value}}
    return f"{place}{'&' if '?' in place else '?'}{urlencode(fields)}"


def _ask(source: TokenRequest) -> Tuple[str, float]:
    # The source of tokens is on this machine: the request, and the token, must not go through a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        request = urllib.request.Request(source.url, headers=source.headers)
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            return _read(parse_json(answer.read()))
    except urllib.error.HTTPError as error:
        words = f"the identity of this machine got no token for storage: {error.code}{_why(error)}"
        problem = ObjectsError(error.code, "identity", words)
        if error.code in _NOT_YET or is_worth_it(error.code):
            raise Transient(problem, retry_after_s(dict(error.headers))) from None
        raise problem from None
    except OSError as error:
        words = f"this machine has no identity that could get a token: {error}"
        raise Transient(ObjectsError(0, "identity", words)) from None
    except (ValueError, KeyError, TypeError):
        raise ObjectsError(0, "identity", "the identity of this machine got no token") from None


def _why(error: urllib.error.HTTPError) -> str:
    """The service's error code. Its message is left out, because it may repeat what was sent."""
    try:
        word = parse_json(error.read()).get("error")
    except (OSError, ValueError, AttributeError):
        return ""
    return f" {word}" if isinstance(word, str) and len(word) < 60 else ""


def _read(answer: Mapping[str, Any]) -> Tuple[str, float]:
    return str(answer["access_token"]), _ends_at(answer)


def _ends_at(answer: Mapping[str, Any]) -> float:
    """When the token expires. Old versions of the service send a date; without any end, in ten minutes."""
    text = str(answer.get("expires_on") or "")
    try:
        return float(text)
    except ValueError:
        pass
    for form in _DATES:
        try:
            return float(calendar.timegm(time.strptime(text, form)))
        except ValueError:
            continue
    return time.time() + float(answer.get("expires_in") or 600)
