"""What a job of a workspace refers to: environments, code, data, datastores; and the public registry."""

from __future__ import annotations

import re
import uuid

from simulators.azure.clock import Clock, stamp
from simulators.azure.documents import Documents
from simulators.azure.messages import Json, SimulatedRequest, SimulatedResponse, not_found, user_error
from simulators.azure.routes import WORKSPACE, Route
from simulators.azure.storage import Storage

CURATED = ("AzureML-ACPT-pytorch-1.13-py38-cuda11.7-gpu", "sklearn-1.5", "acpt-pytorch-2.2-cuda12.1")
_KINDS = {
    "environments": "environment",
    "codes": "code",
    "data": "data",
    "models": "model",
    "components": "component",
}
_VERSION = WORKSPACE + "/{kind}/{name}/versions/{version}"
_REGISTRY = "/registries/azureml/environments/{name}/versions/{version}"


class Assets:
    """Assets keep the body they were given; one that exists keeps its content."""

    def __init__(self, documents: Documents, storage: Storage, clock: Clock) -> None:
        self._documents = documents
        self._storage = storage
        self._clock = clock

    def routes(self) -> list[Route]:
        store = WORKSPACE + "/datastores/{name}"
        return [
            Route("PUT", _VERSION, self._put),
            Route("GET", _VERSION, self._get),
            Route("GET", WORKSPACE + "/{kind}/{name}/versions", self._versions),
            Route("GET", WORKSPACE + "/{kind}/{name}/labels/{label}", self._label),
            Route("POST", _VERSION + "/startPendingUpload", self._upload),
            Route("PUT", store, self._put_store),
            Route("GET", store, self._get_store),
            Route("DELETE", store, self._delete_store),
            Route("GET", WORKSPACE + "/datastores", self._stores),
            Route("POST", store + "/listSecrets", self._secrets),
            Route("GET", WORKSPACE + "/environments/{name}", self._container),
            Route("GET", WORKSPACE + "/environments", self._containers),
            Route("GET", _REGISTRY, self._registry),
        ]

    def add_default_resources(self, workspace: str) -> None:
        """The curated environments, as a workspace and the public registry show them."""
        for name in CURATED:
            for base in (f"{workspace}/environments", "/registries/azureml/environments"):
                path = f"{base}/{name}/versions/1"
                if self._documents.get("environment", path) is None:
                    image = f"mcr.microsoft.com/azureml/curated/{name.lower()}:1"
                    made = {
                        "image": image,
                        "osType": "Linux",
                        "environmentType": "Curated",
                        "isArchived": False,
                    }
                    self._documents.put(
                        "environment", path, self._resource(path, {**made, "tags": {}, "properties": {}})
                    )

    def _kind(self, request: SimulatedRequest) -> str:
        kind = _KINDS.get(request.parts["kind"].lower())
        if kind is None:
            raise not_found("resource type", request.parts["kind"])
        return kind

    def _put(self, request: SimulatedRequest) -> SimulatedResponse:
        kind, path = self._kind(request), self._path(request)
        given = request.json().get("properties") or {}
        kept = self._documents.get(kind, path)
        if kept is None:
            self._documents.put(kind, path, self._resource(path, given))
            return SimulatedResponse(201, self._documents.get(kind, path))
        for name in ("image", "condaFile", "codeUri", "dataUri"):
            if given.get(name) and kept["properties"].get(name) != given[name]:
                raise user_error(
                    f"Asset paths cannot be updated: '{name}' of {request.parts['name']} is another one."
                )
        return SimulatedResponse(200, kept)

    def _resource(self, path: str, properties: Json) -> Json:
        parts = path.split("/")
        who = {"createdAt": stamp(self._clock.now()), "createdBy": "Dummy User", "createdByType": "User"}
        kind = f"Microsoft.MachineLearningServices/workspaces/{parts[-4]}/versions"
        shown = {"id": path, "name": parts[-1], "type": kind, "systemData": who}
        return {**shown, "properties": {"provisioningState": "Succeeded", **properties}}

    def _get(self, request: SimulatedRequest) -> SimulatedResponse:
        found = self._documents.get(self._kind(request), self._path(request))
        if found is None:
            raise not_found(self._kind(request), f"{request.parts['name']}:{request.parts['version']}")
        return SimulatedResponse(body=found)

    def _versions(self, request: SimulatedRequest) -> SimulatedResponse:
        found = self._documents.all(self._kind(request), self._path(request) + "/")
        wanted = request.query.get("hash")
        if wanted:
            found = [
                one
                for one in found
                if (one["properties"].get("properties") or {}).get("hash_sha256") == wanted
            ]
        if "desc" in request.query.get("$orderBy", ""):
            found = found[::-1]
        top = int(request.query.get("$top") or len(found) or 1)
        return SimulatedResponse(body={"value": found[:top]})

    def _label(self, request: SimulatedRequest) -> SimulatedResponse:
        base = self._path(request).rsplit("/labels/", 1)[0]
        found = self._documents.all(self._kind(request), f"{base}/versions/")
        if not found or request.parts["label"] != "latest":
            raise not_found("label", f"{request.parts['name']}@{request.parts['label']}")
        return SimulatedResponse(body=found[-1])

    def _registry(self, request: SimulatedRequest) -> SimulatedResponse:
        found = self._documents.get("environment", request.path)
        if found is None:
            raise not_found("environment", request.parts["name"])
        return SimulatedResponse(body=found)

    def _containers(self, request: SimulatedRequest) -> SimulatedResponse:
        names = [
            one["id"].split("/")[-3] for one in self._documents.all("environment", self._path(request) + "/")
        ]
        return SimulatedResponse(
            body={"value": [self._shown_container(request, name) for name in dict.fromkeys(names)]}
        )

    def _container(self, request: SimulatedRequest) -> SimulatedResponse:
        if not self._documents.all("environment", self._path(request) + "/"):
            raise not_found("environment", request.parts["name"])
        return SimulatedResponse(body=self._shown_container(request, request.parts["name"]))

    def _shown_container(self, request: SimulatedRequest, name: str) -> Json:
        base = re.sub(r"/environments.*", "/environments", self._path(request), flags=re.IGNORECASE)
        versions = [one["name"] for one in self._documents.all("environment", f"{base}/{name}/")]
        properties = {"latestVersion": versions[-1], "isArchived": False, "tags": {}, "properties": {}}
        return {"id": f"{base}/{name}", "name": name, "properties": properties}

    def _upload(self, request: SimulatedRequest) -> SimulatedResponse:
        """A new place in the workspace's own container for the files of an asset."""
        store = self._documents.get("datastore", f"{self._workspace(request)}/datastores/workspaceblobstore")
        if store is None:
            raise not_found("workspace", request.parts["ws"])
        account = store["properties"]["accountName"]
        container = f"{uuid.uuid4().hex}"
        self._storage.own(account, container).create()
        sas = self._storage.container_sas(account, container, "rcwlt")
        blob = f"{self._storage.product_endpoint(account)}/{container}"
        credential = {"credentialType": "SAS", "sasUri": f"{blob}?{sas}"}
        reference = {"blobUri": blob, "storageAccountArmId": account, "credential": credential}
        made = {"pendingUploadId": str(uuid.uuid4()), "pendingUploadType": "TemporaryBlobReference"}
        return SimulatedResponse(body={**made, "blobReferenceForConsumption": reference})

    def _put_store(self, request: SimulatedRequest) -> SimulatedResponse:
        path = self._path(request)
        given = dict(request.json().get("properties") or {})
        if given.get("datastoreType") not in ("AzureBlob", "AzureDataLakeGen2"):
            raise user_error(
                f"The simulator keeps blobs only, not datastores of type {given.get('datastoreType')!r}."
            )
        if not given.get("accountName") or not (given.get("containerName") or given.get("filesystem")):
            raise user_error("A datastore needs 'accountName' and 'containerName'.")
        given.setdefault("containerName", given.get("filesystem"))
        kept = self._documents.get("datastore", path)
        made = {"id": path, "name": request.parts["name"], "properties": {"isDefault": False, **given}}
        made["type"] = "Microsoft.MachineLearningServices/workspaces/datastores"
        self._documents.put("datastore", path, made)
        return SimulatedResponse(200 if kept else 201, _without_secrets(made))

    def _get_store(self, request: SimulatedRequest) -> SimulatedResponse:
        return SimulatedResponse(body=_without_secrets(self._store(request)))

    def _store(self, request: SimulatedRequest) -> Json:
        path = f"{self._workspace(request)}/datastores/{request.parts['name']}"
        found = self._documents.get("datastore", path)
        if found is None:
            raise not_found("datastore", request.parts["name"])
        return found

    def _delete_store(self, request: SimulatedRequest) -> SimulatedResponse:
        self._documents.delete("datastore", self._store(request)["id"])
        return SimulatedResponse(200)

    def _stores(self, request: SimulatedRequest) -> SimulatedResponse:
        found = self._documents.all("datastore", self._path(request) + "/")
        if request.query.get("isDefault", "").lower() == "true":
            found = [one for one in found if one["properties"].get("isDefault")]
        return SimulatedResponse(body={"value": [_without_secrets(one) for one in found]})

    def _secrets(self, request: SimulatedRequest) -> SimulatedResponse:
        properties = self._store(request)["properties"]
        secrets = (properties.get("credentials") or {}).get("secrets")
        if not secrets:
            raise user_error(f"The datastore '{request.parts['name']}' has no secrets.")
        return SimulatedResponse(body=secrets)

    def _workspace(self, request: SimulatedRequest) -> str:
        return re.sub(r"(/workspaces/[^/]+).*", r"\1", self._path(request))

    def _path(self, request: SimulatedRequest) -> str:
        """The ARM id in the path, in the workspace's own spelling; Refused when there is no such one."""
        path = re.sub(r"^.*?(?=/subscriptions/)", "", request.path, flags=re.IGNORECASE).rstrip("/")
        path = path.removesuffix("/startPendingUpload")
        found = re.match(r".*?/workspaces/[^/]+", path, flags=re.IGNORECASE)
        workspace = self._documents.get("workspace", found[0]) if found else None
        if workspace is None or found is None:
            raise not_found("workspace", request.parts.get("ws", ""))
        return str(workspace["id"]) + path[len(found[0]) :]


def _without_secrets(store: Json) -> Json:
    properties = dict(store["properties"])
    credentials = {
        key: value for key, value in (properties.get("credentials") or {}).items() if key != "secrets"
    }
    return {**store, "properties": {**properties, "credentials": credentials or {"credentialsType": "None"}}}
