"""ARM's jobs of a workspace: create or update, get, list with pages and filters, cancel, delete."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from simulators.azure.capacity import need_of
from simulators.azure.clock import Clock, duration_s
from simulators.azure.documents import Documents
from simulators.azure.jobs import ENDED, MUTABLE, JobTable, SimulatedJob
from simulators.azure.launch import check_command
from simulators.azure.messages import Json, SimulatedRequest, SimulatedResponse, not_found, user_error
from simulators.azure.resources import workspace_id
from simulators.azure.routes import WORKSPACE, Route
from simulators.azure.scheduler import Scheduler
from simulators.azure.shell import public_keys

# Of a job, and of an experiment.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")
_JOB = WORKSPACE + "/jobs/{name}"


class JobRoutes:
    """`page` is how many jobs one page of a list has."""

    def __init__(
        self, jobs: JobTable, documents: Documents, scheduler: Scheduler, clock: Clock, page: int
    ) -> None:
        self._jobs = jobs
        self._documents = documents
        self._scheduler = scheduler
        self._clock = clock
        self._page = page

    def routes(self) -> list[Route]:
        return [
            Route("PUT", _JOB, self._put),
            Route("GET", _JOB, self._get),
            Route("DELETE", _JOB, self._delete),
            Route("GET", WORKSPACE + "/jobs", self._list),
            Route("POST", _JOB + "/cancel", self._cancel),
            Route("GET", WORKSPACE + "/operations/{kind}/{name}", self._operation),
        ]

    def find(self, request: SimulatedRequest) -> SimulatedJob:
        job = self._jobs.get(f"{self._workspace(request)}/jobs/{request.parts['name']}")
        if job is None:
            raise not_found("job", request.parts["name"])
        return job

    def _workspace(self, request: SimulatedRequest) -> str:
        parts = request.parts
        found = self._documents.get("workspace", workspace_id(parts["sub"], parts["group"], parts["ws"]))
        if found is None:
            what = f"Microsoft.MachineLearningServices/workspaces/{parts['ws']}"
            raise not_found("Resource", f"{what}' under resource group '{parts['group']}")
        return str(found["id"])

    def _get(self, request: SimulatedRequest) -> SimulatedResponse:
        return SimulatedResponse(body=self._jobs.render(self.find(request)))

    def _put(self, request: SimulatedRequest) -> SimulatedResponse:
        workspace, name = self._workspace(request), request.parts["name"]
        properties = request.json().get("properties")
        if not isinstance(properties, dict):
            raise user_error("The request body has no 'properties'.")
        if not _NAME.fullmatch(name):
            raise user_error(f"The job name '{name}' is not valid.")
        with self._jobs.changed:
            job = self._jobs.get(f"{workspace}/jobs/{name}")
            if job is not None:
                self._update(job, properties)
                return SimulatedResponse(200, self._jobs.render(job))
            return SimulatedResponse(201, self._jobs.render(self._create(workspace, name, properties)))

    def _create(self, workspace: str, name: str, properties: Json) -> SimulatedJob:
        path = f"{workspace}/jobs/{name}"
        job = SimulatedJob(path, name, workspace, properties, self._clock.now(), self._jobs.next_seq())
        job.tags = _words(properties.get("tags"), "tags")
        job.notes = _words(properties.get("properties"), "properties")
        self._check(job)
        job.services = _services(job)
        pool = self._documents.get("compute", need_of(job, self._documents).pool)
        job.kubernetes = bool(pool and pool["properties"]["computeType"] == "Kubernetes")
        self._jobs.add(job)
        return job

    def _check(self, job: SimulatedJob) -> None:
        """What the service refuses at once."""
        properties = job.properties
        if properties.get("jobType") != "Command":
            raise user_error(
                f"The simulator runs jobs of type Command only, not {properties.get('jobType')!r}."
            )
        experiment = properties.get("experimentName")
        if experiment and not _NAME.fullmatch(str(experiment)):
            raise user_error(
                f"The experiment name '{experiment}' is not valid: it takes letters, digits, dashes and "
                "underscores, begins with a letter or digit, and has at most 255 characters."
            )
        check_command(properties)
        self._check_environment(str(properties.get("environmentId") or ""), job.workspace)
        code = properties.get("codeId")
        if code and self._documents.get("code", str(code)) is None:
            raise user_error(f"The code asset '{code}' was not found.", 404)
        timeout = (properties.get("limits") or {}).get("timeout")
        try:
            if timeout:
                duration_s(str(timeout))
        except ValueError:
            raise user_error(
                f"The value '{timeout}' of limits.timeout is not an ISO 8601 duration."
            ) from None
        variables = properties.get("environmentVariables") or {}
        if not all(isinstance(value, str) for value in variables.values()):
            raise user_error("The values of environmentVariables must be strings.")

    def _check_environment(self, environment: str, workspace: str) -> None:
        if not environment:
            raise user_error("The property 'environmentId' is required for a job of type Command.")
        path = environment.removeprefix("azureml:")
        if path.startswith("//registries/") or "/registries/" in path:
            path = path[path.index("/registries/") :]
        elif not path.startswith("/"):
            name, _, version = path.partition(":")
            path = f"{workspace}/environments/{name}/versions/{version}"
        found = re.fullmatch(r"(.*)/labels/latest", path)
        known = (
            self._documents.all("environment", f"{found[1]}/")
            if found
            else self._documents.get("environment", path)
        )
        if not known:
            raise user_error(f"The environment '{environment}' was not found.", 404)

    def _update(self, job: SimulatedJob, properties: Json) -> None:
        """Only some properties of a job that exists may change; the same body again changes nothing."""
        for name, value in properties.items():
            fixed = name not in MUTABLE and name not in ("status", "services", "outputs")
            if fixed and value and _plain(value) != _plain(job.properties.get(name)):
                raise user_error(
                    f"A job with this name already exists, and its property '{name}' cannot be changed. If "
                    "you are trying to create a new job, use a different name. Only the following properties "
                    "can be updated: description, tags, displayName, properties, and isArchived."
                )
        for name in ("displayName", "description"):
            if properties.get(name):
                job.properties[name] = properties[name]
        if properties.get("tags") is not None:
            job.tags = {**_words(properties["tags"], "tags"), **_kept(job.tags)}
        job.notes = {**job.notes, **_words(properties.get("properties"), "properties")}
        job.archived = bool(properties.get("isArchived", job.archived))
        self._jobs.save(job)

    def _list(self, request: SimulatedRequest) -> SimulatedResponse:
        workspace, query = self._workspace(request), request.query
        found = [job for job in reversed(self._jobs.all(workspace)) if _is_listed(job, query)]
        try:
            start = int(query.get("$skip") or 0)
        except ValueError:
            raise user_error("The value of $skip is not valid.") from None
        shown = [self._jobs.render(job) for job in found[start : start + self._page]]
        body = b'{"value":[' + b",".join(shown) + b"]"
        if len(found) > start + self._page:
            link = urlencode({**query, "$skip": str(start + self._page)})
            body += b',"nextLink":"' + f"{request.base}{request.path}?{link}".encode() + b'"'
        return SimulatedResponse(body=body + b"}")

    def _cancel(self, request: SimulatedRequest) -> SimulatedResponse:
        job = self.find(request)
        if job.status in ENDED:
            return SimulatedResponse(200, {})
        self._scheduler.cancel(job)
        return self._accepted(request, "cancel", job)

    def _delete(self, request: SimulatedRequest) -> SimulatedResponse:
        job = self.find(request)
        if job.status not in ENDED:
            raise user_error(f"The job '{job.name}' is {job.status} and cannot be deleted.", 409)
        self._jobs.remove(job)
        return self._accepted(request, "delete", job)

    def _accepted(self, request: SimulatedRequest, kind: str, job: SimulatedJob) -> SimulatedResponse:
        version = urlencode({"api-version": request.query.get("api-version", "")})
        where = f"{request.base}{job.workspace}/operations/{kind}/{job.name}?{version}"
        return SimulatedResponse(202, None, {"Location": where, "Retry-After": "0"})

    def _operation(self, request: SimulatedRequest) -> SimulatedResponse:
        """The answer at the address of a long-running operation: 202 until it is complete."""
        if request.parts["kind"] == "delete" or self.find(request).status in ENDED:
            return SimulatedResponse(200, {})
        where = f"{request.base}{request.path}?{urlencode(request.query)}"
        return SimulatedResponse(202, None, {"Location": where, "Retry-After": "1"})


def _services(job: SimulatedJob) -> Json:
    """Those the job asks for, before they run."""
    made = {name: dict(service) for name, service in (job.properties.get("services") or {}).items()}
    if public_keys(job) and not made:
        made["ssh"] = {"jobServiceType": "SSH", "properties": {"sshPublicKeys": public_keys(job)}}
    return {
        name: {"port": None, "endpoint": None, "status": None, **service} for name, service in made.items()
    }


def _is_listed(job: SimulatedJob, query: dict[str, str]) -> bool:
    view = query.get("listViewType") or "ActiveOnly"
    if view != "All" and job.archived != (view == "ArchivedOnly"):
        return False
    if query.get("jobType", "Command").lower() != "command":
        return False
    return _matches(query.get("tag"), job.tags) and _matches(query.get("properties"), job.notes)


def _matches(wanted: str | None, words: Json) -> bool:
    """`name` or `name=value`, several with commas between."""
    for one in filter(None, (wanted or "").split(",")):
        name, equals, value = one.partition("=")
        if name not in words or (equals and str(words[name]) != value):
            return False
    return True


def _kept(tags: Json) -> Json:
    """Tags that the service itself wrote."""
    return {name: value for name, value in tags.items() if name in ("amlk8s status", "ssh")}


def _words(given: object, name: str) -> Json:
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(
        value is None or isinstance(value, str) for value in given.values()
    ):
        raise user_error(f"The values of '{name}' must be strings.")
    return {key: value or "" for key, value in given.items()}


def _plain(value: object) -> object:
    """Without what is empty, which some clients send as null and others leave out."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one not in (None, {}, [])}
    return value.lower() if isinstance(value, str) and value.startswith("/subscriptions/") else value
