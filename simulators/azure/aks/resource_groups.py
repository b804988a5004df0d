"""Resource groups: those that a client makes, and those that workspaces of the simulator are in."""

from __future__ import annotations

from simulators.azure.aks.operations import Failure, Operations
from simulators.azure.documents import Documents
from simulators.azure.messages import Json, Refused, SimulatedRequest, SimulatedResponse
from simulators.azure.resources import group_id
from simulators.azure.routes import SUBSCRIPTION, Route

_GROUPS = SUBSCRIPTION + "/resourceGroups"
_GROUP = _GROUPS + "/{group}"
_HELD = ("workspace", "virtualcluster", "managedcluster")


class ResourceGroups:
    """Removing a group removes what is in it."""

    def __init__(self, documents: Documents, operations: Operations) -> None:
        self._documents = documents
        self._operations = operations
        operations.effects["delete-group"] = (self._remove, self._keep)

    def routes(self) -> list[Route]:
        return [
            Route("GET", _GROUPS, self._list),
            Route("GET", _GROUP, self._get),
            Route("HEAD", _GROUP, self._has),
            Route("PUT", _GROUP, self._put),
            Route("DELETE", _GROUP, self._delete),
            Route("GET", _GROUP + "/resources", self._resources),
        ]

    def find(self, subscription: str, name: str) -> Json:
        """Refused with 404 when there is no such group."""
        path = group_id(subscription, name)
        found = self._documents.get("resourcegroup", path)
        if found:
            return found
        if self._documents.all("workspace", f"{path}/") or self._documents.all("virtualcluster", f"{path}/"):
            return _group(path, name, "eastus", {})
        raise Refused(404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found.")

    def _of(self, request: SimulatedRequest) -> Json:
        return self.find(request.parts["sub"], request.parts["group"])

    def _list(self, request: SimulatedRequest) -> SimulatedResponse:
        start = f"/subscriptions/{request.parts['sub']}/"
        names = {one["name"]: one for one in self._documents.all("resourcegroup", start)}
        for one in self._documents.all("workspace", start):
            name = one["id"].split("/")[4]
            names.setdefault(name, _group(f"{start}resourceGroups/{name}", name, "eastus", {}))
        return SimulatedResponse(body={"value": list(names.values())})

    def _get(self, request: SimulatedRequest) -> SimulatedResponse:
        return SimulatedResponse(body=self._of(request))

    def _has(self, request: SimulatedRequest) -> SimulatedResponse:
        self._of(request)
        return SimulatedResponse(204)

    def _put(self, request: SimulatedRequest) -> SimulatedResponse:
        body, name = request.json(), request.parts["group"]
        location = str(body.get("location") or "")
        if not location:
            raise Refused(400, "LocationRequired", "The location property is required for this definition.")
        path = group_id(request.parts["sub"], name)
        known = self._documents.get("resourcegroup", path)
        if known and known["location"] != location:
            message = (
                f"Invalid resource group location '{location}'. The Resource group already exists in "
                f"location '{known['location']}'."
            )
            raise Refused(409, "InvalidResourceGroupLocation", message)
        made = _group(path, name, location, dict(body.get("tags") or {}))
        self._documents.put("resourcegroup", path, made)
        return SimulatedResponse(200 if known else 201, made)

    def _delete(self, request: SimulatedRequest) -> SimulatedResponse:
        found = self._of(request)
        found["properties"] = {"provisioningState": "Deleting"}
        self._documents.put("resourcegroup", found["id"], found)
        operation = self._operations.begin("delete-group", found["id"], found["location"])
        sub = request.parts["sub"]
        place = f"{request.base}/subscriptions/{sub}/operationresults/{operation['name']}"
        headers = {"Location": f"{place}?api-version={request.query['api-version']}", "Retry-After": "1"}
        return SimulatedResponse(202, headers=headers)

    def _resources(self, request: SimulatedRequest) -> SimulatedResponse:
        path = self._of(request)["id"]
        rows = [
            {name: one[name] for name in ("id", "name", "type", "location", "tags") if name in one}
            for kind in _HELD
            for one in self._documents.all(kind, f"{path}/")
        ]
        return SimulatedResponse(body={"value": rows})

    def _remove(self, path: str) -> Failure | None:
        for kind in (*_HELD, "agentpool"):
            for one in self._documents.all(kind, f"{path}/"):
                self._documents.delete(kind, one["id"])
        self._documents.delete("resourcegroup", path)
        return None

    def _keep(self, path: str, failure: Failure) -> None:
        found = self._documents.get("resourcegroup", path)
        if found:
            found["properties"] = {"provisioningState": "Succeeded"}
            self._documents.put("resourcegroup", path, found)


def _group(path: str, name: str, location: str, tags: Json) -> Json:
    made = {"id": path, "name": name, "type": "Microsoft.Resources/resourceGroups", "location": location}
    return {**made, "tags": tags, "properties": {"provisioningState": "Succeeded"}}
