"""The REST client of one workspace: jobs, run details, computes, environments. Returns plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar
from urllib.parse import quote, urlsplit

from gofer.backends.azureml import names
from gofer.backends.azureml.names import Workspace
from gofer.backends.run_notes import KnownResources
from gofer.core.parallel import parallel_map
from gofer.errors import CredentialError, GoferError, Unreachable
from gofer.transport.azure.arm import Arm, Json
from gofer.transport.azure.problems import RequestRejected, ResourceNotFound

AT_ONCE = 16
_MOST_PAGES = 50
T = TypeVar("T")
S = TypeVar("S")


class Service:
    """Blocking; any thread may call. Raises the errors of gofer.transport.azure."""

    def __init__(self, arm: Arm, workspace: Workspace, known: KnownResources) -> None:
        self.arm = arm
        self.workspace = workspace
        self.known = known

    # -- jobs

    def put_job(self, name: str, body: Json) -> None:
        """Send a job. RequestRejected when the service refuses it. An existing job of that name stays
        unchanged.

        A job that acts as the user who submits it carries a token of the user, as the official SDK does.
        """
        headers = None
        if (body["properties"].get("identity") or {}).get("identityType") == "UserIdentity":
            token = self.arm.credential.token(f"{self.arm.cloud.ml}/.default")
            headers = {"x-azureml-token": token.value}
        try:
            self.arm.put(self.workspace.job(name), names.JOBS_API, body, headers=headers)
        except RequestRejected:
            # The service also refuses a second job of the same name; then the job has been sent before.
            if self.job(name) is None:
                raise

    def job(self, name: str) -> Json | None:
        return self.arm.find(self.workspace.job(name), names.JOBS_API)

    def jobs(self, **query: str) -> Iterator[list[Json]]:
        """Newest first, page by page."""
        # All: also archived jobs, which may be runs of gofer.
        words = {"listViewType": "All", **query}
        return self.arm.pages(f"{self.workspace.id}/jobs", names.JOBS_API, **words)

    def cancel_job(self, name: str) -> None:
        """Ask the service to end a job. Ended and unknown jobs are ignored."""
        try:
            self.arm.post(f"{self.workspace.job(name)}/cancel", names.JOBS_API)
        except (ResourceNotFound, RequestRejected):
            return

    def details(self, name: str) -> Json | None:
        """The run history's record of a job: log files and the error. Also for jobs of other programs."""
        return self.arm.find(f"{self._history()}/runs/{name}/details")

    def instances(self, name: str, node: int = 0) -> dict[str, Json]:
        """The services of a job on one of its nodes, by name, as the run history knows them; {} when none."""
        found = self.arm.find(f"{self._history()}/runs/{name}/serviceinstances/{node}") or {}
        return dict(found.get("instances") or {})

    def experiments(self, most: int) -> list[str]:
        """The ids of the workspace's experiments, at most `most`."""
        found: list[str] = []
        for page in self._queried(f"{self._history()}/experiments:query", {"viewType": "All", "top": most}):
            found += [str(entry["experimentId"]) for entry in page if entry.get("experimentId")]
            if len(found) >= most:
                break
        return found[:most]

    def runs(self, kind: str, experiment: str, query: Json) -> Iterator[list[Json]]:
        """Runs of an experiment, page by page. `query` has the fields of the SDK's QueryParams.

        `kind` says how `experiment` names it: `experiments` by its name, `experimentids` by its id. Raises
        ResourceNotFound without such an experiment, RequestRejected for a filter that the service does not
        accept.
        """
        return self._queried(f"{self._history()}/{kind}/{quote(experiment, safe='')}/runs:query", query)

    def _queried(self, url: str, query: Json) -> Iterator[list[Json]]:
        # A bound, in case the service never stops returning a continuation token.
        for _ in range(_MOST_PAGES):
            answer = self.arm.post(url, "", query)
            yield list(answer.get("value") or ())
            token = answer.get("continuationToken")
            if not token:
                return
            query = {**query, "continuationToken": token}

    # -- resources of the workspace

    def facts(self) -> Json:
        """The workspace itself; remembered after the first answer."""
        found = self.known.get("workspace", "facts")
        if found is None:
            answer = self.arm.get(self.workspace.id, names.WORKSPACES_API)
            properties = answer.get("properties") or {}
            found = {
                "location": answer.get("location"),
                "discoveryUrl": properties.get("discoveryUrl"),
                "workspaceId": properties.get("workspaceId"),
                "tenant": (answer.get("identity") or {}).get("tenantId"),
            }
            self.known.put("workspace", "facts", found)
        return dict(found)

    def compute(self, name: str) -> Json:
        return self.arm.get(self.workspace.compute(name), names.COMPUTES_API)

    def nodes(self, compute: str) -> list[Json]:
        pages = self.arm.pages(
            f"{self.workspace.compute(compute)}/listNodes", names.COMPUTES_API, method="POST"
        )
        return [node for page in pages for node in page]

    def virtual_cluster(self, name: str) -> Json:
        return self.arm.get(self.workspace.virtual_cluster(name), names.VIRTUAL_CLUSTERS_API)

    def instance_types(self, virtual_cluster: str, location: str) -> list[Json]:
        """The instance types that the cluster's subscription has in one location."""
        subscription = self.workspace.virtual_cluster(virtual_cluster).split("/")[2]
        path = (
            f"/subscriptions/{subscription}/providers/Microsoft.MachineLearningServices"
            f"/locations/{location}/instancetypeseries"
        )
        return [row for page in self.arm.pages(path, names.VIRTUAL_CLUSTERS_API) for row in page]

    def environments(self) -> list[Json]:
        """The environments of the workspace that are not archived, each with its newest version."""
        path = f"{self.workspace.id}/environments"
        query = {"listViewType": "ActiveOnly"}
        return [entry for page in self.arm.pages(path, names.ENVIRONMENTS_API, **query) for entry in page]

    def images(self, instance_type: str | None = None) -> dict[str, str]:
        """Singularity's own images by name, each with what it has; of one instance type, or of all."""
        prefix = "Singularity."
        query = {"instanceType": prefix + instance_type.removeprefix(prefix)} if instance_type else {}
        path = f"/virtualcluster/rp/subscriptions/{self.workspace.subscription}/managedComputeImages"
        return self.arm.get(self._region() + path, names.VIRTUAL_CLUSTERS_API, **query)

    def _history(self) -> str:
        return f"{self._region()}/history/v1.0{self.workspace.id}"

    def _region(self) -> str:
        """The address of the services in the workspace's region."""
        parts = urlsplit(str(self.facts().get("discoveryUrl") or ""))
        if not parts.netloc:
            raise Unreachable(f"the workspace {self.workspace.name} does not say where its services are")
        return f"{parts.scheme}://{parts.netloc}"


def each(act: Callable[[S], T], things: Iterable[S]) -> list[T | GoferError]:
    """The results of `act` for each thing, in order; several run at once. Blocking.

    A GoferError takes the place of the result. After the first connection or login error, the remaining
    things get that error without being tried.
    """
    away: list[GoferError] = []

    # Called from several threads: once one of them finds the service away, the others stop asking.
    def tried(item: S) -> T | GoferError:
        if away:
            return away[0]
        try:
            return act(item)
        except (Unreachable, CredentialError) as error:
            away.append(error)
            return error
        except GoferError as error:
            return error

    return parallel_map(tried, things, at_once=AT_ONCE)
