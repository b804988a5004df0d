"""Azure AD and managed identity: tokens for who shows the dummy secret, a device code, a node's secret."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from urllib.parse import parse_qsl

from simulators.azure.messages import Json, SimulatedRequest, SimulatedResponse
from simulators.azure.routes import Route
from simulators.azure.tenants import named
from simulators.azure.tokens import CLIENT, SECRET, TENANT, VOUCHER, Tokens

_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class LoginService:
    """Answers of the login service. Device codes are approved by the admin API, or at once when `hasty`."""

    def __init__(self, tokens: Tokens, node_secret: str) -> None:
        self._tokens = tokens
        self._node_secret = node_secret
        self._lock = threading.Lock()
        # By device code: the code that the user types, or `ok`; and the requested scope.
        self._codes: dict[str, str] = {}
        self._scopes: dict[str, str] = {}
        self.hasty = False
        # A user who is signed out gets no token by refreshing.
        self.signed_out = False
        self.node_clients: set[str] = set()

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/{tenant}/oauth2/v2.0/token", self._token, open=True),
            Route("POST", "/{tenant}/oauth2/token", self._token, open=True),
            Route("POST", "/{tenant}/oauth2/v2.0/devicecode", self._device_code, open=True),
            Route("GET", "/{tenant}/v2.0/.well-known/openid-configuration", self._openid, open=True),
            Route("GET", "/common/discovery/instance", self._instance, open=True),
            Route("GET", "/msi/identity", self._app_service, open=True),
            Route("GET", "/msi/token", self._machine_learning, open=True),
            Route("GET", "/metadata/identity/oauth2/token", self._instance_metadata, open=True),
        ]

    def approve(self, user_code: str = "") -> int:
        """Device codes waiting for their user, all or the one named, are granted; how many."""
        with self._lock:
            found = [code for code, word in self._codes.items() if word != "ok" and user_code in ("", word)]
            for code in found:
                self._codes[code] = "ok"
        return len(found)

    def _openid(self, request: SimulatedRequest) -> SimulatedResponse:
        base = f"{request.base}/{request.parts['tenant']}"
        body = {
            "issuer": f"{base}/v2.0",
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/oauth2/v2.0/token",
            "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
            "tenant_region_scope": "NA",
            "cloud_instance_name": "127.0.0.1",
        }
        return SimulatedResponse(body=body)

    def _instance(self, request: SimulatedRequest) -> SimulatedResponse:
        where = f"{request.base}/{TENANT}/v2.0/.well-known/openid-configuration"
        return SimulatedResponse(
            body={"tenant_discovery_endpoint": where, "api-version": "1.1", "metadata": []}
        )

    def _device_code(self, request: SimulatedRequest) -> SimulatedResponse:
        code, word = secrets.token_hex(16), secrets.token_hex(4).upper()
        form = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
        with self._lock:
            self._codes[code] = "ok" if self.hasty else word
            self._scopes[code] = form.get("scope", "")
        url = f"{request.base}/device"
        message = (
            f"To sign in, use a web browser to open the page {url} and enter the code {word} to authenticate."
        )
        body = {
            "user_code": word,
            "device_code": code,
            "verification_uri": url,
            "expires_in": 900,
            "interval": 1,
        }
        return SimulatedResponse(body={**body, "message": message})

    def _token(self, request: SimulatedRequest) -> SimulatedResponse:
        form: Json = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
        form["tenant"] = named(request.parts["tenant"])
        grant = form.get("grant_type", "")
        if grant == "client_credentials":
            if form.get("client_assertion_type") == _ASSERTION:
                if not _vouches(str(form.get("client_assertion")), str(form.get("client_id"))):
                    return _declined("invalid_client", "AADSTS700211: No matching identity found.", 401)
            elif form.get("client_secret") != SECRET:
                return _declined("invalid_client", "AADSTS7000215: Invalid client secret provided.", 401)
            return self._grant(form, form.get("client_id", CLIENT), refresh=False)
        if grant.endswith("device_code"):
            return self._device_grant(form)
        if grant == "refresh_token":
            if self.signed_out:
                return _declined(
                    "invalid_grant", "AADSTS700082: The refresh token has expired due to inactivity."
                )
            return self._grant(form, CLIENT, refresh=True)
        return _declined("unsupported_grant_type", f"AADSTS70003: The app requested '{grant}'.")

    def _device_grant(self, form: Json) -> SimulatedResponse:
        with self._lock:
            word = self._codes.get(str(form.get("device_code", "")))
            if word == "ok":
                del self._codes[form["device_code"]]
        if word is None:
            return _declined("invalid_grant", "AADSTS70000: The device code is not known.")
        if word != "ok":
            return _declined("authorization_pending", "AADSTS70016: Pending end-user authorization.")
        scope = form.get("scope") or self._scopes.pop(form["device_code"], "")
        return self._grant({**form, "scope": scope}, CLIENT, refresh=True)

    def _grant(self, form: Json, who: str, *, refresh: bool) -> SimulatedResponse:
        scopes = str(form.get("scope") or form.get("resource") or "").split()
        # The name of an application may stand for its address.
        whole = [scope for scope in scopes if "://" in scope or scope.endswith("/.default")]
        resource = (whole[0] if whole else "https://management.azure.com").removesuffix("/.default")
        token, ends = self._tokens.mint(resource, who, tenant=str(form["tenant"]))
        left = int(self._tokens.lifetime_s)
        body: Json = {
            "token_type": "Bearer",
            "expires_in": left,
            "ext_expires_in": left,
            "access_token": token,
        }
        if refresh:
            body |= {"refresh_token": "dummy-refresh-token", "scope": " ".join(scopes), "expires_on": ends}
            body |= {"id_token": token, "client_info": "eyJ1aWQiOiJkdW1teSIsInV0aWQiOiJkdW1teSJ9"}
        return SimulatedResponse(body=body)

    def _app_service(self, request: SimulatedRequest) -> SimulatedResponse:
        return self._managed(
            request, request.headers.get("x-identity-header"), request.query.get("client_id")
        )

    def _machine_learning(self, request: SimulatedRequest) -> SimulatedResponse:
        return self._managed(request, request.headers.get("secret"), request.query.get("clientid"))

    def _instance_metadata(self, request: SimulatedRequest) -> SimulatedResponse:
        if request.headers.get("metadata", "").lower() != "true":
            return SimulatedResponse(
                400,
                {"error": "invalid_request", "error_description": "Required metadata header not specified"},
            )
        return self._managed(request, self._node_secret, request.query.get("client_id"))

    def _managed(self, request: SimulatedRequest, shown: str | None, client: str | None) -> SimulatedResponse:
        if shown != self._node_secret:
            return SimulatedResponse(401, {"statusCode": 401, "message": "The secret does not match."})
        if self.node_clients and client and client not in self.node_clients:
            return SimulatedResponse(
                400, {"statusCode": 400, "message": "No User Assigned Managed Identity found."}
            )
        resource = request.query.get("resource", "").removesuffix("/.default")
        if not resource:
            return SimulatedResponse(400, {"statusCode": 400, "message": "The resource is missing."})
        token, ends = self._tokens.mint(resource, client or "compute-identity")
        body = {"access_token": token, "expires_on": str(ends), "resource": resource, "token_type": "Bearer"}
        return SimulatedResponse(
            body={**body, "client_id": client or "compute-identity", "expires_in": str(3600)}
        )


def _vouches(assertion: str, client: str) -> bool:
    """The token of a service that vouches, or one that the client signed for itself with its certificate.

    Whose certificate it was is not looked at.
    """
    if assertion == VOUCHER:
        return True
    try:
        body = assertion.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return (claims["iss"], claims["sub"]) == (client, client) and time.time() < float(claims["exp"])
    except (IndexError, KeyError, ValueError, TypeError):
        return False


def _declined(error: str, message: str, status: int = 400) -> SimulatedResponse:
    code = int("".join(filter(str.isdigit, message.split(":")[0])) or 0)
    return SimulatedResponse(status, {"error": error, "error_description": message, "error_codes": [code]})
