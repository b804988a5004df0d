"""The data plane under a workspace's discovery address: run history and artifacts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from simulators.azure.capacity import nodes_of
from simulators.azure.clock import stamp
from simulators.azure.data import output_uri
from simulators.azure.documents import Documents
from simulators.azure.filters import read_filter
from simulators.azure.jobs import JobTable, SimulatedJob
from simulators.azure.messages import Json, SimulatedRequest, SimulatedResponse, not_found
from simulators.azure.routes import WORKSPACE, Route
from simulators.azure.storage import Storage

_RUNS = "/history/v1.0" + WORKSPACE
# What a run has and its details have not.
_RUN_ALONE = {
    "experimentId",
    "displayName",
    "description",
    "dataContainerId",
    "hidden",
    "runType",
    "createdUtc",
}
_FILES = "/artifact/v2.0" + WORKSPACE + "/artifacts"


class History:
    """`find` gives the job that a request's workspace and `name` mean."""

    def __init__(
        self,
        jobs: JobTable,
        documents: Documents,
        storage: Storage,
        find: Callable[[SimulatedRequest], SimulatedJob],
        page: int,
    ) -> None:
        self._jobs = jobs
        self._documents = documents
        self._storage = storage
        self._find = find
        self._page = page

    def routes(self) -> list[Route]:
        made = []
        for middle in ("", "/experiments/{experiment}", "/experimentids/{experiment}"):
            run = f"{_RUNS}{middle}/runs/{{name}}"
            made += [
                Route("GET", run + "/details", self._details),
                Route("GET", run, self._run),
                Route("PATCH", run, self._modify),
                Route("GET", run + "/artifacts", self._artifacts),
                Route("GET", run + "/artifacts/contentinfo", self._content),
                Route("GET", run + "/artifacts/path", self._artifacts),
                Route("GET", run + "/serviceinstances/{node}", self._services),
                Route("GET", run + "/children", lambda request: SimulatedResponse(body={"value": []})),
            ]
            # Only within an experiment, as the official client knows it.
            made += [Route("POST", f"{_RUNS}{middle}/runs:query", self._query)] if middle else []
        return [
            *made,
            Route("POST", _RUNS + "/experiments:query", self._experiments),
            Route("POST", _RUNS + "/rundata", self._run_data),
            Route("POST", "/data/v1.0" + WORKSPACE + "/dataversion/batchGetResolvedUris", self._resolve),
            Route("GET", _FILES + "/ExperimentRun/{container}", self._artifacts),
            Route("GET", _FILES + "/contentinfo/ExperimentRun/{container}/{path*}", self._content),
        ]

    def _details(self, request: SimulatedRequest) -> SimulatedResponse:
        job = self._find(request)
        account, container = self._place(job)
        links = {name: self._storage.link(account, container, f"{job.folder}/{name}") for name in job.logs}
        run = self._shown(job)
        body = {name: value for name, value in run.items() if name not in _RUN_ALONE}
        body |= {"createdTimeUtc": run["createdUtc"], "warnings": []}
        return SimulatedResponse(body={**body, "logFiles": links, "runDefinition": _definition(job)})

    def _run(self, request: SimulatedRequest) -> SimulatedResponse:
        return SimulatedResponse(body=self._shown(self._find(request)))

    def _run_data(self, request: SimulatedRequest) -> SimulatedResponse:
        request.parts["name"] = str(request.json().get("runId", ""))
        job = self._find(request)
        specification = json.loads(self._jobs.render(job))
        body = {
            "runMetadata": self._shown(job),
            "runDefinition": _definition(job),
            "jobSpecification": specification,
        }
        return SimulatedResponse(body=body)

    def _modify(self, request: SimulatedRequest) -> SimulatedResponse:
        """What the official client sends to change a job, and the portal for its edits in place."""
        job, body = self._find(request), request.json()
        with self._jobs.changed:
            for name in ("displayName", "description"):
                if body.get(name) is not None:
                    job.properties[name] = body[name]
            job.tags = {**job.tags, **(body.get("tags") or {})}
            job.notes = {**job.notes, **(body.get("properties") or {})}
            job.archived = bool(body["hidden"]) if body.get("hidden") is not None else job.archived
            self._jobs.save(job)
        return self._run(request)

    def _query(self, request: SimulatedRequest) -> SimulatedResponse:
        """Newest first, unless `orderBy` says otherwise; `filter`, `top` and `continuationToken` as well."""
        name = request.parts["experiment"]
        mine = [job for job in self._of(request) if name in (job.experiment, _experiment_id(job))]
        if not mine:
            raise not_found("experiment", name)
        return self._page_of([self._shown(job) for job in mine], request.json())

    def _experiments(self, request: SimulatedRequest) -> SimulatedResponse:
        found = {
            _experiment_id(job): {"experimentId": _experiment_id(job), "name": job.experiment, "tags": {}}
            | {"createdUtc": stamp(job.created), "archivedTime": None}
            for job in self._of(request)
        }
        return self._page_of(list(found.values()), request.json())

    def _of(self, request: SimulatedRequest) -> list[SimulatedJob]:
        """The workspace's jobs, newest first."""
        parts = request.parts
        start = f"/subscriptions/{parts['sub']}/resourceGroups/{parts['group']}/".lower()
        end = f"/{parts['ws'].lower()}"
        found = [job for job in self._jobs.all() if job.workspace.lower().startswith(start)]
        return [job for job in reversed(found) if job.workspace.lower().endswith(end)]

    def _page_of(self, rows: list[Json], query: Json) -> SimulatedResponse:
        fits = read_filter(str(query.get("filter") or ""))
        found = [row for row in rows if fits(row)]
        for order in reversed(str(query.get("orderBy") or "").split(",")):
            name, _, way = order.strip().partition(" ")
            if name:
                found.sort(key=lambda row: str(row.get(name) or ""), reverse=way.strip() == "desc")
        skip = int(query.get("continuationToken") or 0)
        top = min(int(query.get("top") or self._page), self._page)
        answer: Json = {"value": found[skip : skip + top], "continuationToken": None, "nextLink": None}
        if len(found) > skip + top:
            answer["continuationToken"] = str(skip + top)
        return SimulatedResponse(body=answer)

    def _artifacts(self, request: SimulatedRequest) -> SimulatedResponse:
        job = self._job_of(request)
        account, container = self._place(job)
        start = f"{job.folder}/" + request.query.get("path", "")
        blobs = self._storage.own(account, container).list(start)
        return SimulatedResponse(
            body={"value": [_artifact(job, blob.name[len(job.folder) + 1 :]) for blob in blobs]}
        )

    def _content(self, request: SimulatedRequest) -> SimulatedResponse:
        job = self._job_of(request)
        path = request.parts.get("path") or request.query.get("path", "")
        account, container = self._place(job)
        name = f"{job.folder}/{path}"
        if self._storage.own(account, container).size(name) is None:
            raise not_found("artifact", path)
        return SimulatedResponse(
            body={**_artifact(job, path), "contentUri": self._storage.link(account, container, name)}
        )

    def _services(self, request: SimulatedRequest) -> SimulatedResponse:
        """Of one node, as the official client asks for them."""
        job, node = self._find(request), int(request.parts["node"])
        made: Json = {}
        for name, one in job.services.items():
            is_shell = one.get("jobServiceType") == "SSH"
            now = {**one, **self._jobs.shell_service(job, node)} if is_shell else one
            is_told = {key: now.get(key) for key in ("port", "status", "endpoint")}
            made[name] = {
                "type": one.get("jobServiceType"),
                **is_told,
                "properties": now.get("properties") or {},
            }
        return SimulatedResponse(body={"instances": made})

    def _resolve(self, request: SimulatedRequest) -> SimulatedResponse:
        """Where the data assets are that jobs made of their outputs."""
        found = {}
        for wanted in request.json().get("values") or []:
            name, _, output = str(wanted).partition("/")
            request.parts["name"] = name
            found[wanted] = {"uri": output_uri(self._find(request), output), "type": "uri_folder"}
        return SimulatedResponse(body={"values": found})

    def _job_of(self, request: SimulatedRequest) -> SimulatedJob:
        if "container" in request.parts:
            request.parts["name"] = request.parts["container"].removeprefix("dcid.")
        return self._find(request)

    def _place(self, job: SimulatedJob) -> tuple[str, str]:
        store = self._documents.get("datastore", f"{job.workspace}/datastores/workspaceartifactstore")
        assert store is not None
        return store["properties"]["accountName"], store["properties"]["containerName"]

    def _shown(self, job: SimulatedJob) -> Json:
        compute = str(job.properties.get("computeId") or "").rsplit("/", 1)[-1]
        return {
            "runId": job.name,
            "runUuid": hashlib.md5(job.id.encode()).hexdigest(),
            "runNumber": job.seq,
            "rootRunId": job.name,
            "parentRunId": None,
            "experimentId": _experiment_id(job),
            "displayName": job.properties.get("displayName") or job.name,
            "description": job.properties.get("description"),
            "dataContainerId": f"dcid.{job.name}",
            "status": job.said or job.status,
            "target": compute,
            "createdBy": {"userName": job.created_by, "userObjectId": "dummy", "userTenantId": "dummy"},
            "tags": job.tags,
            "properties": job.notes,
            "hidden": job.archived,
            "runType": "azureml.scriptrun",
            "computeRequest": {"nodeCount": nodes_of(job)},
            **_times(job),
            **_outcome(job),
        }


def _times(job: SimulatedJob) -> Json:
    return {
        "createdUtc": stamp(job.created),
        "startTimeUtc": stamp(job.started) if job.started is not None else None,
        "endTimeUtc": stamp(job.ended) if job.ended is not None else None,
    }


def _outcome(job: SimulatedJob) -> Json:
    error = {"error": {**job.error, "severity": None}, "time": stamp(job.ended or 0)} if job.error else None
    given = job.properties.get("outputs") or {} if job.status == "Completed" else {}
    outputs = {
        name: {"assetId": f"{job.name}/{name}", "type": one.get("jobOutputType") or "uri_folder"}
        for name, one in given.items()
        if name != "default"
    }
    return {"error": error, "inputs": {}, "outputs": outputs}


def _definition(job: SimulatedJob) -> Json:
    """The run's definition, in the words of the first SDK where a job was left by it."""
    kept = job.notes.get("sim.run-definition")
    if kept:
        made: Json = json.loads(str(kept))
        return made
    distribution = job.properties.get("distribution") or {}
    compute = str(job.properties.get("computeId") or "").rsplit("/", 1)[-1]
    return {
        "command": job.properties.get("command"),
        "target": compute,
        "nodeCount": nodes_of(job),
        "communicator": distribution.get("distributionType"),
        "mpi": {"processCountPerNode": distribution.get("processCountPerInstance") or 1},
        "environmentVariables": job.properties.get("environmentVariables") or {},
        "environment": {"name": job.properties.get("environmentId")},
    }


def _artifact(job: SimulatedJob, path: str) -> Json:
    container = f"dcid.{job.name}"
    return {
        "artifactId": f"ExperimentRun/{container}/{path}",
        "origin": "ExperimentRun",
        "container": container,
        "path": path,
    }


def _experiment_id(job: SimulatedJob) -> str:
    return hashlib.md5(f"{job.workspace}/{job.experiment}".lower().encode()).hexdigest()
