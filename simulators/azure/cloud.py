"""What a client asks first: the cloud's endpoints, tenants, subscriptions, a workspace's services."""

from __future__ import annotations

from urllib.parse import urlsplit

from simulators.azure.documents import Documents
from simulators.azure.messages import SimulatedRequest, SimulatedResponse, not_found
from simulators.azure.routes import SUBSCRIPTION, WORKSPACE, Route
from simulators.azure.tokens import TENANT

_SERVICES = ("api", "history", "artifacts", "experimentation", "metric", "mlflow")


class SimulatedCloud:
    """Answers that do not change while the simulator runs."""

    def __init__(self, documents: Documents, blobs: str) -> None:
        self._documents = documents
        self._blobs = urlsplit(blobs)

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/metadata/endpoints", self._endpoints, open=True),
            Route("GET", "/tenants", self._tenants),
            Route("GET", "/subscriptions", self._subscriptions),
            Route("GET", SUBSCRIPTION, self._subscription),
            Route("GET", "/discovery", self._services, open=True),
            Route("GET", "/discovery/workspaces/{guid}", self._services, open=True),
            Route("GET", "/discovery/v1.0" + WORKSPACE, self._services, open=True),
        ]

    def _endpoints(self, request: SimulatedRequest) -> SimulatedResponse:
        cloud = {
            "name": "GoferSimulator",
            # Azure ML's own client derives the audience of its data plane from the portal's last words.
            "portal": "https://portal.azure.com",
            "resourceManager": f"{request.base}/",
            "authentication": {
                "loginEndpoint": f"{request.base}/",
                "audiences": [f"{request.base}/", "https://management.core.windows.net/"],
                "tenant": "common",
                "identityProvider": "AAD",
            },
            "graph": f"{request.base}/graph",
            "suffixes": {"storage": f"core.localhost:{self._blobs.port}", "acrLoginServer": "azurecr.io"},
        }
        return SimulatedResponse(body=[cloud])

    def _tenants(self, request: SimulatedRequest) -> SimulatedResponse:
        tenant = {
            "id": f"/tenants/{TENANT}",
            "tenantId": TENANT,
            "displayName": "Simulated",
            "countryCode": "US",
        }
        return SimulatedResponse(body={"value": [tenant]})

    def _subscriptions(self, request: SimulatedRequest) -> SimulatedResponse:
        return SimulatedResponse(body={"value": [_subscription(one) for one in self._known()]})

    def _subscription(self, request: SimulatedRequest) -> SimulatedResponse:
        if request.parts["sub"] not in self._known():
            raise not_found("subscription", request.parts["sub"])
        return SimulatedResponse(body=_subscription(request.parts["sub"]))

    def _known(self) -> list[str]:
        found = [
            one["id"].split("/")[2]
            for one in self._documents.all("workspace") + self._documents.all("virtualcluster")
        ]
        return list(dict.fromkeys(found))

    def _services(self, request: SimulatedRequest) -> SimulatedResponse:
        return SimulatedResponse(body=dict.fromkeys(_SERVICES, request.base))


def _subscription(name: str) -> dict[str, str]:
    shown = {"id": f"/subscriptions/{name}", "subscriptionId": name, "displayName": "Simulated subscription"}
    return {**shown, "state": "Enabled", "tenantId": TENANT}
