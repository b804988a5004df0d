"""Unsigned tokens of the simulator's Azure AD: minted, and checked where ARM would check them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Collection

from simulators.azure.clock import Clock
from simulators.azure.messages import Json, Refused

TENANT = "11111111-1111-1111-1111-111111111111"
CLIENT = "22222222-2222-2222-2222-222222222222"
# A word that opens nothing but a simulator.
SECRET = "dummy-secret"
# What a service that vouches for the application gives it.
VOUCHER = "dummy-federated-token"
# How far the clock of who minted a token may be ahead. A real service is as lenient with its end; here a test
# must see it end.
_SKEW_S = 300.0
ARM_AUDIENCES = (
    "https://management.azure.com",
    "https://management.core.windows.net",
    "https://ml.azure.com",
)


class Tokens:
    """Mints and checks. `lifetime_s` may be set by a test; `expire` ends all that were given out before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lifetime_s = 3600.0
        self._not_before = 0.0
        self._serial = 0

    def mint(self, resource: str, who: str, tenant: str = TENANT) -> tuple[str, int]:
        """A token for a resource, and its end in seconds since the epoch."""
        now = self._clock.now()
        ends = int(now + self.lifetime_s)
        self._serial += 1
        claims = {
            "aud": resource.rstrip("/"),
            "iss": f"https://sts.windows.net/{tenant}/",
            "iat": int(now) - 60,
            "nbf": int(now) - 60,
            "exp": ends,
            "appid": who,
            "oid": who,
            "sub": who,
            "tid": tenant,
            "upn": "dummy.user@example.com",
            "ver": "1.0",
            # By the machine's own clock, which no test sets wrong.
            "born": time.time(),
            "uti": str(self._serial),
        }
        parts = [_coded({"alg": "none", "typ": "JWT"}), _coded(claims), "ZHVtbXktc2lnbmF0dXJl"]
        return ".".join(parts), ends

    def expire(self) -> None:
        """Every token given out so far is refused from now on, however wrong the clock was or is."""
        self._not_before = time.time()

    def check(self, header: str | None, audiences: Collection[str]) -> Json:
        """The claims; Refused with 401 as ARM says it."""
        if not header or not header.startswith("Bearer "):
            raise _unauthorized(
                "AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing."
            )
        try:
            claims = _decoded(header[7:])
        except (ValueError, IndexError):
            raise _unauthorized("InvalidAuthenticationToken", "The access token is invalid.") from None
        now = self._clock.now()
        if max(claims.get("nbf", 0), claims.get("iat", 0)) > now + _SKEW_S:
            raise _unauthorized("InvalidAuthenticationToken", "The access token is not valid yet.")
        if claims.get("exp", 0) <= now or claims.get("born", 0) < self._not_before:
            raise _unauthorized(
                "ExpiredAuthenticationToken", "The access token expiry UTC time is earlier than now."
            )
        if str(claims.get("aud", "")).rstrip("/") not in audiences:
            message = (
                f"The access token has been obtained for wrong audience or resource '{claims.get('aud')}'."
            )
            raise _unauthorized("InvalidAuthenticationTokenAudience", message)
        return claims


def _unauthorized(code: str, message: str) -> Refused:
    words = f'Bearer authorization_uri="https://login.windows.net/{TENANT}", error="invalid_token"'
    return Refused(401, code, message, {"WWW-Authenticate": f'{words}, error_description="{message}"'})


def _coded(part: Json) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def _decoded(token: str) -> Json:
    body = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    if not isinstance(claims, dict):
        raise ValueError("claims")
    return claims
