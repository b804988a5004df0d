"""ARM's workspaces, computes and virtual clusters."""

from __future__ import annotations

import copy
import re

from simulators.azure.capacity import node_names, used_by
from simulators.azure.documents import Documents
from simulators.azure.jobs import ACTIVE, JobTable, SimulatedJob
from simulators.azure.messages import Json, Refused, SimulatedRequest, SimulatedResponse, not_found
from simulators.azure.resources import INSTANCE_TYPES, SINGULARITY_IMAGES
from simulators.azure.routes import SUBSCRIPTION, WORKSPACE, Route

_GROUP = SUBSCRIPTION + "/resourceGroups/{group}/providers/Microsoft.MachineLearningServices"
_ALL = SUBSCRIPTION + "/providers/Microsoft.MachineLearningServices"
_COMPUTE = WORKSPACE + "/computes/{name}"


class ComputeRoutes:
    """What there is to run jobs on, with what of it they hold."""

    def __init__(self, documents: Documents, jobs: JobTable) -> None:
        self._documents = documents
        self._jobs = jobs

    def routes(self) -> list[Route]:
        series = "/locations/{location}/instancetypeseries"
        return [
            Route("GET", WORKSPACE, self._workspace),
            Route("GET", _GROUP + "/workspaces", self._workspaces),
            Route("GET", _ALL + "/workspaces", self._workspaces),
            Route("GET", _COMPUTE, self._compute),
            Route("GET", WORKSPACE + "/computes", self._computes),
            Route("POST", _COMPUTE + "/listNodes", self._nodes),
            Route("GET", _GROUP + "/virtualClusters/{name}", self._cluster),
            Route("GET", _GROUP + "/virtualClusters", self._clusters),
            Route("GET", _ALL + "/virtualClusters", self._clusters),
            Route("GET", _ALL + series, self._series),
            Route("GET", _GROUP + "/virtualClusters/{name}" + series, self._series),
            Route("GET", "/virtualcluster/rp/subscriptions/{sub}/managedComputeImages", self._images),
        ]

    def _workspace(self, request: SimulatedRequest) -> SimulatedResponse:
        return SimulatedResponse(body=self._shown(self._known_workspace(request), request.base))

    def _known_workspace(self, request: SimulatedRequest) -> Json:
        path = re.sub(r"(/workspaces/[^/]+).*", r"\1", _bare(request))
        found = self._documents.get("workspace", path)
        if found is None:
            what = f"Microsoft.MachineLearningServices/workspaces/{request.parts['ws']}"
            message = f"The Resource '{what}' under resource group '{request.parts['group']}' was not found."
            raise Refused(404, "ResourceNotFound", message)
        return found

    def _workspaces(self, request: SimulatedRequest) -> SimulatedResponse:
        under = _bare(request).lower().split("/providers/")[0]
        return SimulatedResponse(
            body={
                "value": [self._shown(one, request.base) for one in self._documents.all("workspace", under)]
            }
        )

    def _shown(self, workspace: Json, base: str) -> Json:
        """With the address of its services, which depends on the port."""
        properties = {**workspace["properties"], "discoveryUrl": f"{base}/discovery"}
        properties["mlFlowTrackingUri"] = (
            f"{base.replace('https', 'azureml', 1)}/mlflow/v1.0{workspace['id']}"
        )
        return {**workspace, "properties": properties}

    def _compute(self, request: SimulatedRequest) -> SimulatedResponse:
        return SimulatedResponse(body=self._with_nodes(self._known_compute(request)))

    def _known_compute(self, request: SimulatedRequest) -> Json:
        workspace = self._known_workspace(request)
        found = self._documents.get("compute", f"{workspace['id']}/computes/{request.parts['name']}")
        if found is None:
            raise not_found("compute", request.parts["name"])
        return found

    def _computes(self, request: SimulatedRequest) -> SimulatedResponse:
        workspace = self._known_workspace(request)
        found = self._documents.all("compute", f"{workspace['id']}/computes/")
        return SimulatedResponse(body={"value": [self._with_nodes(one) for one in found]})

    def _with_nodes(self, compute: Json) -> Json:
        shown = copy.deepcopy(compute)
        sim = shown.pop("sim")
        details = shown["properties"]["properties"]
        if shown["properties"]["computeType"] == "AmlCompute":
            held = self._held(compute)
            unusable = len(sim.get("unusable", []))
            preparing = sum(job.status == "Preparing" for job in held.values())
            counts = {"runningNodeCount": len(held) - preparing, "preparingNodeCount": preparing}
            idle = sim["nodes"] - len(held) - unusable
            rest = {"idleNodeCount": idle, "unusableNodeCount": unusable, "leavingNodeCount": 0}
            details["nodeStateCounts"] = {**counts, **rest, "preemptedNodeCount": 0}
            details["scaleSettings"]["maxNodeCount"] = sim["nodes"]
            details["currentNodeCount"] = details["targetNodeCount"] = sim["nodes"]
        return shown

    def _held(self, compute: Json) -> dict[str, SimulatedJob]:
        workspace = compute["id"].split("/computes/")[0]
        active = [job for job in self._jobs.all(workspace) if job.status in ACTIVE]
        names = set(node_names(compute))
        return {node: job for job in active for node in job.nodes if node in names}

    def _nodes(self, request: SimulatedRequest) -> SimulatedResponse:
        compute = self._known_compute(request)
        held = self._held(compute)
        unusable = compute["sim"].get("unusable", [])
        rows = []
        for index, name in enumerate(node_names(compute)):
            job = held.get(name)
            state = "running" if job else "unusable" if name in unusable else "idle"
            rows.append(
                {
                    "nodeId": name,
                    "privateIpAddress": f"10.0.0.{index + 4}",
                    "publicIpAddress": "127.0.0.1",
                    "port": _shell_port(job, name) or 50000 + index,
                    "nodeState": state,
                    "runId": job.name if job else None,
                }
            )
        return SimulatedResponse(body={"nodes": rows})

    def _cluster(self, request: SimulatedRequest) -> SimulatedResponse:
        found = self._documents.get("virtualcluster", _bare(request))
        if found is None:
            raise not_found("virtual cluster", request.parts["name"])
        return SimulatedResponse(body=self._with_quota(found))

    def _clusters(self, request: SimulatedRequest) -> SimulatedResponse:
        under = _bare(request).lower().split("/providers/")[0]
        found = self._documents.all("virtualcluster", under)
        return SimulatedResponse(body={"value": [self._with_quota(one) for one in found]})

    def _with_quota(self, cluster: Json) -> Json:
        shown = copy.deepcopy(cluster)
        managed = shown["properties"]["managed"]
        jobs = [job for job in self._jobs.all() if job.status in ACTIVE]
        for location, quota in managed["quotas"].items():
            for row in quota["limits"]:
                row["used"] += used_by(cluster, location, row["id"], row["slaTier"], jobs, self._documents)
        for row in managed["defaultGroupPolicyOverallQuotas"]["limits"]:
            row["used"] += used_by(cluster, "", row["id"], "", jobs, self._documents)
        return shown

    def _images(self, request: SimulatedRequest) -> SimulatedResponse:
        """Singularity's own images; those with CUDA only for instance types with GPUs."""
        name = request.query.get("instanceType", "").removeprefix("Singularity.")
        gpus = next((row[2] for row in INSTANCE_TYPES if row[0] == name), None)
        return SimulatedResponse(
            body={
                image: text for image, text in SINGULARITY_IMAGES.items() if gpus != 0 or "CUDA" not in text
            }
        )

    def _series(self, request: SimulatedRequest) -> SimulatedResponse:
        rows = [
            {
                "name": name,
                "description": description,
                "instanceTypeSeriesId": series,
                "numberOfCores": max(gpus, 1) * 5,
                "numberOfGPUs": gpus,
            }
            for name, series, gpus, description in INSTANCE_TYPES
        ]
        return SimulatedResponse(body={"value": rows})


def _shell_port(job: SimulatedJob | None, node: str) -> int:
    """Where the shell on one of the job's nodes listens; 0 without one."""
    return job.shells.get(str(job.nodes.index(node)), 0) if job else 0


def _bare(request: SimulatedRequest) -> str:
    """The path without a service's own prefix."""
    return re.sub(r"^.*?(?=/subscriptions/)", "", request.path, flags=re.IGNORECASE).rstrip("/")
