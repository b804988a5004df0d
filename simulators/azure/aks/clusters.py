"""Managed clusters and their node pools."""

from __future__ import annotations

import base64
import copy
import re
import threading
import uuid
from pathlib import Path

from simulators.azure.aks.api_server import ApiServer
from simulators.azure.aks.kubeconfigs import made_up_kubeconfig, with_azure_login
from simulators.azure.aks.operations import PROVIDER, Failure, Hook, Operations
from simulators.azure.aks.resource_groups import ResourceGroups
from simulators.azure.aks.vm_sizes import VmSizes, cores_of, size_named
from simulators.azure.documents import Documents
from simulators.azure.messages import Json, Refused, SimulatedRequest, SimulatedResponse
from simulators.azure.resources import group_id
from simulators.azure.routes import SUBSCRIPTION, Route

_ALL = SUBSCRIPTION + f"/providers/{PROVIDER}/managedClusters"
_IN_GROUP = SUBSCRIPTION + f"/resourceGroups/{{group}}/providers/{PROVIDER}/managedClusters"
_CLUSTER = _IN_GROUP + "/{cluster}"
_POOL = _CLUSTER + "/agentPools/{pool}"
_DEFAULT_VERSION = "1.34.2"
_POOL_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")
_CLUSTER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_FIXED = ("vmSize", "osType", "scaleSetPriority", "scaleSetEvictionPolicy", "spotMaxPrice")


class ManagedClusters:
    """Clusters in state `documents`. Any thread.

    `kubeconfig` is the file of a cluster that is handed out in place of a made-up one. `hook` gets each new
    count of a pool for work; pools of the system are left alone.
    """

    def __init__(
        self,
        documents: Documents,
        operations: Operations,
        groups: ResourceGroups,
        api_server: ApiServer,
        authority: Path,
    ) -> None:
        self._documents = documents
        self._api_server = api_server
        self._authority = authority.read_text()
        self._operations = operations
        self._groups = groups
        self.sizes = VmSizes(documents)
        self._lock = threading.RLock()
        self.kubeconfig: Path | None = None
        self.hook: Hook | None = None
        effects = operations.effects
        effects["create-cluster"] = effects["update-cluster"] = (self._cluster_done, self._cluster_failed)
        effects["delete-cluster"] = (self._cluster_gone, self._cluster_failed)
        effects["create-pool"] = effects["update-pool"] = (self._pool_done, self._pool_failed)
        effects["delete-pool"] = (self._pool_gone, self._pool_failed)

    def routes(self) -> list[Route]:
        return [
            Route("GET", _ALL, self._list),
            Route("GET", _IN_GROUP, self._list),
            Route("GET", _CLUSTER, self._get),
            Route("PUT", _CLUSTER, self._put),
            Route("PATCH", _CLUSTER, self._tag),
            Route("DELETE", _CLUSTER, self._delete),
            Route("POST", _CLUSTER + "/listClusterUserCredential", self._credential),
            Route("POST", _CLUSTER + "/listClusterAdminCredential", self._credential),
            Route("POST", _CLUSTER + "/start", self._power),
            Route("POST", _CLUSTER + "/stop", self._power),
            Route("POST", _CLUSTER + "/abort", self._abort),
            Route("GET", _CLUSTER + "/agentPools", self._pools),
            Route("GET", _POOL, self._pool),
            Route("PUT", _POOL, self._put_pool),
            Route("DELETE", _POOL, self._delete_pool),
            *self.sizes.routes(),
        ]

    def configure(self, request: SimulatedRequest) -> Json:
        """What a test turns: `seconds` of each kind of operation, `retry_after`, `limits` of quotas,
        `kubeconfig` (a file), `hook` (words), `fail` {kind, code, message}, `pods` {cluster, names},
        `count` {cluster, pool, count} as the autoscaler would set it.
        """
        body = request.json()
        operations = self._operations
        operations.seconds |= {kind: float(seconds) for kind, seconds in body.get("seconds", {}).items()}
        operations.retry_after = str(body.get("retry_after", operations.retry_after))
        if "limits" in body:
            self.sizes.set_limits(body["limits"])
        if "kubeconfig" in body:
            self.kubeconfig = Path(body["kubeconfig"]) if body["kubeconfig"] else None
        if "hook" in body:
            self.hook = Hook(tuple(body["hook"])) if body["hook"] else None
        if fail := body.get("fail"):
            failure = Failure(fail.get("code", "InternalOperationError"), fail.get("message", "It failed."))
            operations.failures.setdefault(fail["kind"], []).append(failure)
        if pods := body.get("pods"):
            self._api_server.add_pods(pods["cluster"], pods["names"])
        if count := body.get("count"):
            self._autoscale(count["cluster"], count["pool"], int(count["count"]))
        return {"clusters": [self._shown(one) for one in self._documents.all("managedcluster")]}

    # -- clusters

    def _list(self, request: SimulatedRequest) -> SimulatedResponse:
        under = f"/subscriptions/{request.parts['sub']}/"
        if "group" in request.parts:
            under = f"{group_id(request.parts['sub'], request.parts['group'])}/"
        found = [self._shown(one) for one in self._documents.all("managedcluster", under)]
        return SimulatedResponse(body={"value": found})

    def _get(self, request: SimulatedRequest) -> SimulatedResponse:
        return SimulatedResponse(body=self._shown(self._of(request)))

    def _put(self, request: SimulatedRequest) -> SimulatedResponse:
        with self._lock:
            path, body = _cluster_path(request), request.json()
            group = self._groups.find(request.parts["sub"], request.parts["group"])
            if group["properties"]["provisioningState"] == "Deleting":
                message = "The resource group is in deprovisioning state and cannot perform this operation."
                raise Refused(409, "ResourceGroupBeingDeleted", message)
            known = self._documents.get("managedcluster", path)
            _check_match(request, known["eTag"] if known else None)
            if known:
                self._check_idle(path)
            _check_cluster(request.parts["cluster"], body, known)
            self._check_quota(path, body, known)
            self._write_cluster(path, request.parts["cluster"], body, known)
            operation = self._operations.begin(
                "update-cluster" if known else "create-cluster", path, str(body["location"])
            )
            shown = self._shown(self._documents.get("managedcluster", path) or {})
            return SimulatedResponse(
                200 if known else 201, shown, self._operations.headers(request, operation)
            )

    def _check_quota(self, path: str, body: Json, known: Json | None) -> None:
        wanted: dict[str, int] = {}
        for profile in body["properties"]["agentPoolProfiles"]:
            before = self._documents.get("agentpool", f"{path}/agentPools/{profile['name']}") or {}
            _add_cores(wanted, profile, before.get("properties", {}))
        self.sizes.check(path.split("/")[2], str(body["location"]), wanted)

    def _write_cluster(self, path: str, name: str, body: Json, known: Json | None) -> None:
        properties = {key: value for key, value in body["properties"].items() if key != "agentPoolProfiles"}
        properties = {**_cluster_defaults(path, name, str(body["location"])), **properties}
        properties["provisioningState"] = "Updating" if known else "Creating"
        made: Json = {
            "id": path,
            "name": name,
            "type": f"{PROVIDER}/managedClusters",
            "location": body["location"],
            "tags": body.get("tags") or {},
            "eTag": str(uuid.uuid4()),
            "sku": {"name": "Base", "tier": "Free", **(body.get("sku") or {})},
            "identity": _identity(body.get("identity"), path),
            "properties": properties,
        }
        self._documents.put("managedcluster", path, made)
        for profile in body["properties"]["agentPoolProfiles"]:
            pool = {key: value for key, value in profile.items() if key != "name"}
            self._write_pool(f"{path}/agentPools/{profile['name']}", pool, "Creating")

    def _tag(self, request: SimulatedRequest) -> SimulatedResponse:
        with self._lock:
            found = self._of(request)
            found |= {"tags": request.json().get("tags") or {}, "eTag": str(uuid.uuid4())}
            self._documents.put("managedcluster", found["id"], found)
            return SimulatedResponse(body=self._shown(found))

    def _delete(self, request: SimulatedRequest) -> SimulatedResponse:
        with self._lock:
            path = _cluster_path(request)
            found = self._documents.get("managedcluster", path)
            if found is None:
                return SimulatedResponse(204)
            _check_match(request, found["eTag"])
            self._check_idle(path)
            found["properties"]["provisioningState"] = "Deleting"
            self._documents.put("managedcluster", path, found)
            operation = self._operations.begin("delete-cluster", path, found["location"])
            return SimulatedResponse(202, headers=self._operations.headers(request, operation))

    def _credential(self, request: SimulatedRequest) -> SimulatedResponse:
        found = self._of(request)
        if found["properties"]["provisioningState"] == "Creating":
            message = f"The cluster '{found['name']}' is being created."
            raise Refused(409, "OperationNotAllowed", message)
        if self.kubeconfig:
            text = self.kubeconfig.read_text()
        else:
            text = made_up_kubeconfig(found["name"], request.base, self._authority)
        is_admin = request.path.lower().endswith("listclusteradmincredential")
        aad = found["properties"].get("aadProfile") or {}
        if aad.get("managed") and not is_admin:
            text = with_azure_login(text)
        if is_admin and found["properties"].get("disableLocalAccounts"):
            raise Refused(400, "BadRequest", "Getting static credential is not allowed: it is disabled.")
        name = "clusterAdmin" if is_admin else "clusterUser"
        value = base64.b64encode(text.encode()).decode()
        return SimulatedResponse(body={"kubeconfigs": [{"name": name, "value": value}]})

    def _power(self, request: SimulatedRequest) -> SimulatedResponse:
        with self._lock:
            found = self._of(request)
            self._check_idle(found["id"])
            stops = request.path.lower().endswith("/stop")
            found["properties"]["provisioningState"] = "Stopping" if stops else "Starting"
            found["properties"]["powerState"] = {"code": "Stopped" if stops else "Running"}
            self._documents.put("managedcluster", found["id"], found)
            operation = self._operations.begin("update-cluster", found["id"], found["location"])
            return SimulatedResponse(202, headers=self._operations.headers(request, operation))

    def _abort(self, request: SimulatedRequest) -> SimulatedResponse:
        self._operations.abort(self._of(request)["id"])
        return SimulatedResponse(204)

    # -- node pools

    def _pools(self, request: SimulatedRequest) -> SimulatedResponse:
        found = self._documents.all("agentpool", f"{self._of(request)['id']}/agentPools/")
        return SimulatedResponse(body={"value": found})

    def _pool(self, request: SimulatedRequest) -> SimulatedResponse:
        return SimulatedResponse(body=self._pool_of(request))

    def _put_pool(self, request: SimulatedRequest) -> SimulatedResponse:
        with self._lock:
            cluster = self._of(request)
            path = f"{cluster['id']}/agentPools/{request.parts['pool']}"
            properties = request.json().get("properties") or {}
            known = self._documents.get("agentpool", path)
            before = known["properties"] if known else {}
            _check_match(request, before.get("eTag") if known else None)
            self._check_idle(cluster["id"])
            _check_pool(request.parts["pool"], properties, before)
            wanted: dict[str, int] = {}
            _add_cores(wanted, {**before, **properties}, before)
            self.sizes.check(path.split("/")[2], cluster["location"], wanted)
            state = "Creating" if not known else "Updating"
            if known and properties.get("count") != before["count"]:
                state = "Scaling"
            kept = {key: value for key, value in before.items() if key not in ("minCount", "maxCount")}
            self._write_pool(path, {**kept, **properties}, state)
            kind = "update-pool" if known else "create-pool"
            operation = self._operations.begin(kind, path, cluster["location"])
            shown = copy.deepcopy(self._documents.get("agentpool", path))
            return SimulatedResponse(
                200 if known else 201, shown, self._operations.headers(request, operation)
            )

    def _write_pool(self, path: str, properties: Json, state: str) -> None:
        kept = {**_POOL_DEFAULTS, **properties, "provisioningState": state, "eTag": str(uuid.uuid4())}
        name = path.rsplit("/", 1)[1]
        made = {"id": path, "name": name, "type": f"{PROVIDER}/managedClusters/agentPools"}
        self._documents.put("agentpool", path, {**made, "properties": kept})

    def _delete_pool(self, request: SimulatedRequest) -> SimulatedResponse:
        with self._lock:
            cluster = self._of(request)
            found = self._documents.get("agentpool", f"{cluster['id']}/agentPools/{request.parts['pool']}")
            if found is None:
                return SimulatedResponse(204)
            _check_match(request, found["properties"]["eTag"])
            self._check_idle(cluster["id"])
            found["properties"]["provisioningState"] = "Deleting"
            self._documents.put("agentpool", found["id"], found)
            operation = self._operations.begin("delete-pool", found["id"], cluster["location"])
            return SimulatedResponse(202, headers=self._operations.headers(request, operation))

    def _autoscale(self, cluster: str, name: str, count: int) -> None:
        """Change the count as the autoscaler does: by no operation that a client sees."""
        for pool in self._documents.all("agentpool"):
            if pool["id"].lower().endswith(f"/managedclusters/{cluster}/agentpools/{name}".lower()):
                with self._lock:
                    pool["properties"] |= {"count": count, "eTag": str(uuid.uuid4())}
                    self._documents.put("agentpool", pool["id"], pool)
                self._make_real(pool)

    # -- the ends of operations

    def _cluster_done(self, path: str) -> Failure | None:
        for pool in self._documents.all("agentpool", f"{path}/agentPools/"):
            failure = self._make_real(pool)
            if failure:
                return failure
        with self._lock:
            for pool in self._documents.all("agentpool", f"{path}/agentPools/"):
                self._become("agentpool", pool["id"], "Succeeded")
            self._become("managedcluster", path, "Succeeded")
        return None

    def _cluster_failed(self, path: str, failure: Failure) -> None:
        with self._lock:
            word = "Canceled" if failure.code == "OperationCanceled" else "Failed"
            self._become("managedcluster", path, word)

    def _cluster_gone(self, path: str) -> Failure | None:
        for pool in self._documents.all("agentpool", f"{path}/agentPools/"):
            failure = self._make_real(pool, count=0)
            if failure:
                return failure
            self._documents.delete("agentpool", pool["id"])
        self._documents.delete("managedcluster", path)
        for kind in ("daemonset", "kubepod", "secret"):
            for key in self._documents.keys(kind, f"{path.rsplit('/', 1)[1]}/"):
                self._documents.delete(kind, key)
        return None

    def _pool_done(self, path: str) -> Failure | None:
        pool = self._documents.get("agentpool", path)
        failure = self._make_real(pool) if pool else None
        if failure is None:
            with self._lock:
                self._become("agentpool", path, "Succeeded")
        return failure

    def _pool_failed(self, path: str, failure: Failure) -> None:
        with self._lock:
            word = "Canceled" if failure.code == "OperationCanceled" else "Failed"
            self._become("agentpool", path, word)

    def _pool_gone(self, path: str) -> Failure | None:
        pool = self._documents.get("agentpool", path)
        failure = self._make_real(pool, count=0) if pool else None
        if failure is None:
            self._documents.delete("agentpool", path)
        return failure

    def _make_real(self, pool: Json, count: int | None = None) -> Failure | None:
        if self.hook is None or pool["properties"].get("mode") == "System":
            return None
        cluster = pool["id"].split("/")[8]
        wanted = pool["properties"]["count"] if count is None else count
        return self.hook.run(cluster, pool["name"], int(wanted))

    def _become(self, kind: str, path: str, state: str) -> None:
        found = self._documents.get(kind, path)
        if found:
            found["properties"]["provisioningState"] = state
            self._documents.put(kind, path, found)

    # -- shared

    def _of(self, request: SimulatedRequest) -> Json:
        found = self._documents.get("managedcluster", _cluster_path(request))
        if found is None:
            what = f"{PROVIDER}/managedClusters/{request.parts['cluster']}"
            message = f"The Resource '{what}' under resource group '{request.parts['group']}' was not found."
            raise Refused(404, "ResourceNotFound", message)
        return found

    def _pool_of(self, request: SimulatedRequest) -> Json:
        path = f"{self._of(request)['id']}/agentPools/{request.parts['pool']}"
        found = self._documents.get("agentpool", path)
        if found is None:
            raise Refused(404, "NotFound", f"Agent pool '{request.parts['pool']}' was not found.")
        return found

    def _check_idle(self, path: str) -> None:
        if self._operations.is_busy(path):
            message = (
                f"Operation is not allowed because there's an in progress operation on the managed cluster "
                f"'{path.split('/')[8]}'."
            )
            raise Refused(409, "OperationNotAllowed", message)

    def _shown(self, cluster: Json) -> Json:
        pools = self._documents.all("agentpool", f"{cluster['id']}/agentPools/")
        profiles = [{"name": one["name"], **one["properties"]} for one in pools]
        return {**cluster, "properties": {**cluster["properties"], "agentPoolProfiles": profiles}}


_POOL_DEFAULTS = {
    "count": 1,
    "osType": "Linux",
    "osSKU": "Ubuntu",
    "mode": "User",
    "type": "VirtualMachineScaleSets",
    "orchestratorVersion": _DEFAULT_VERSION,
    "currentOrchestratorVersion": _DEFAULT_VERSION,
    "powerState": {"code": "Running"},
    "scaleSetPriority": "Regular",
}


def _cluster_path(request: SimulatedRequest) -> str:
    group = group_id(request.parts["sub"], request.parts["group"])
    return f"{group}/providers/{PROVIDER}/managedClusters/{request.parts['cluster']}"


def _cluster_defaults(path: str, name: str, location: str) -> Json:
    group = path.split("/")[4]
    return {
        "kubernetesVersion": _DEFAULT_VERSION,
        "currentKubernetesVersion": _DEFAULT_VERSION,
        "powerState": {"code": "Running"},
        "fqdn": f"{name.lower()}-{uuid.uuid4().hex[:8]}.hcp.{location}.azmk8s.io",
        "nodeResourceGroup": f"MC_{group}_{name}_{location}",
        "enableRBAC": True,
        "maxAgentPools": 100,
    }


def _identity(given: Json | None, path: str) -> Json | None:
    if not given or given.get("type") != "SystemAssigned":
        return given
    return {**given, "principalId": str(uuid.uuid5(uuid.NAMESPACE_URL, path))}


def _check_match(request: SimulatedRequest, etag: str | None) -> None:
    """Refused with 412 for a condition that does not hold. `etag` is None when there is no resource."""
    wanted, unwanted = request.headers.get("if-match"), request.headers.get("if-none-match")
    stale = wanted and etag != wanted.strip('"') and not (wanted == "*" and etag)
    if stale or (unwanted == "*" and etag):
        shown = wanted or unwanted
        message = f"The condition '{shown}' is not met: the resource's etag is '{etag or ''}'."
        raise Refused(412, "PreconditionFailed", message)


def _check_cluster(name: str, body: Json, known: Json | None) -> None:
    if not _CLUSTER_NAME.fullmatch(name):
        raise Refused(400, "InvalidParameter", f"The cluster name '{name}' is not valid.")
    properties = body.get("properties") or {}
    if not body.get("location"):
        raise Refused(400, "LocationRequired", "The location property is required for this definition.")
    if known and known["location"] != body["location"]:
        raise Refused(409, "InvalidResourceLocation", "The resource already exists in another location.")
    if not (properties.get("dnsPrefix") or properties.get("fqdnSubdomain")):
        raise Refused(400, "InvalidParameter", "dnsPrefix is required.")
    if not body.get("identity") and not properties.get("servicePrincipalProfile"):
        message = "Required parameter servicePrincipalProfile is missing (null)."
        raise Refused(400, "InvalidParameter", message)
    profiles = properties.get("agentPoolProfiles") or []
    if not any(one.get("mode") == "System" for one in profiles):
        raise Refused(400, "InvalidParameter", "There has to be at least one system agent pool.")
    for profile in profiles:
        _check_pool(str(profile.get("name")), profile, {})


def _check_pool(name: str, properties: Json, before: Json) -> None:
    if not _POOL_NAME.fullmatch(name):
        message = f"The agent pool name '{name}' must start with a lowercase letter, have max length of 12."
        raise Refused(400, "InvalidParameter", message)
    wanted = {**_POOL_DEFAULTS, **before, **properties}
    for key in _FIXED:
        if before.get(key) and wanted.get(key) != before[key]:
            message = f"Changing property 'properties.{key}' is not allowed."
            raise Refused(400, "PropertyChangeNotAllowed", message)
    size = size_named(str(wanted.get("vmSize", "")))
    if size is None:
        message = f"The VM size of {wanted.get('vmSize')} is not allowed in your subscription."
        raise Refused(400, "BadRequest", message)
    if wanted["mode"] == "System" and size.cores < 2:
        raise Refused(400, "InvalidParameter", "The system pool needs a VM size with at least 2 cores.")
    count = int(wanted["count"])
    least = 1 if wanted["mode"] == "System" else 0
    if not least <= count <= 1000:
        raise Refused(400, "InvalidParameter", f"The value of parameter agentPoolProfile.count is {count}.")
    if wanted.get("enableAutoScaling"):
        low, high = wanted.get("minCount"), wanted.get("maxCount")
        if low is None or high is None or not low <= count <= high:
            message = f"The count {count} is not between minCount {low} and maxCount {high}."
            raise Refused(400, "InvalidParameter", message)
    elif properties.get("minCount") is not None or properties.get("maxCount") is not None:
        message = "minCount and maxCount must be null unless enableAutoScaling is true."
        raise Refused(400, "InvalidParameter", message)


def _add_cores(wanted: dict[str, int], properties: Json, before: Json) -> None:
    """The cores that a pool takes in addition to those that it has."""
    had = cores_of(before) if before else {}
    for family, cores in cores_of(properties).items():
        wanted[family] = wanted.get(family, 0) + max(0, cores - had.get(family, 0))
