"""One workspace, asked by name: jobs, run details, and what it stands on. Plain JSON out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar
from urllib.parse import quote, urlsplit

from gofer.backends.azureml import names
from gofer.backends.azureml.names import Workspace
from gofer.backends.azureml.notes import Known
from gofer.errors import CredentialError, GoferError, Unreachable
from gofer.transport.azure.arm import Arm, Json
from gofer.transport.azure.problems import RequestRejected, ResourceNotFound

AT_ONCE = 16
_MOST_PAGES = 50
T = TypeVar("T")
S = TypeVar("S")


class Service:
    """Blocking; any thread may call. Errors are those of gofer.transport.azure."""

    def __init__(self, arm: Arm, workspace: Workspace, known: Known) -> None:
        self.arm = arm
        self.workspace = workspace
        self.known = known

    # -- jobs

    def put_job(self, name: str, body: Json) -> None:
        """RequestRejected when the service refuses the job. An existing job of that name stays as it is.

        A job that is to act as whoever sends it brings a token of theirs, as the official SDK does.
        """
        headers = None
        if (body["properties"].get("identity") or {}).get("identityType") == "UserIdentity":
            token = self.arm.credential.token(f"{self.arm.cloud.ml}/.default")
            headers = {"x-azureml-token": token.value}
        try:
            self.arm.put(self.workspace.job(name), names.JOBS_API, body, headers=headers)
        except RequestRejected:
            if self.job(name) is None:
                raise

    def job(self, name: str) -> Json | None:
        return self.arm.find(self.workspace.job(name), names.JOBS_API)

    def jobs(self, **query: str) -> Iterator[list[Json]]:
        """Newest first, page by page."""
        words = {"listViewType": "All", **query}
        return self.arm.pages(f"{self.workspace.id}/jobs", names.JOBS_API, **words)

    def cancel_job(self, name: str) -> None:
        """Ended or unknown jobs are passed over."""
        try:
            self.arm.post(f"{self.workspace.job(name)}/cancel", names.JOBS_API)
        except (ResourceNotFound, RequestRejected):
            return

    def details(self, name: str) -> Json | None:
        """The run history's word: log files and the error, whoever started the job."""
        return self.arm.find(f"{self._history()}/runs/{name}/details")

    def instances(self, name: str, node: int = 0) -> dict[str, Json]:
        """The services of a job on one of its nodes, by name, as the run history knows them; none is {}."""
        found = self.arm.find(f"{self._history()}/runs/{name}/serviceinstances/{node}") or {}
        return dict(found.get("instances") or {})

    def experiments(self, most: int) -> list[str]:
        """The ids of the workspace's experiments, no more than `most`."""
        found: list[str] = []
        for page in self._queried(f"{self._history()}/experiments:query", {"viewType": "All", "top": most}):
            found += [str(one["experimentId"]) for one in page if one.get("experimentId")]
            if len(found) >= most:
                break
        return found[:most]

    def runs(self, kind: str, experiment: str, query: Json) -> Iterator[list[Json]]:
        """Runs of an experiment, named by `kind` (`experiments`: its name, `experimentids`: its id), by the
        SDK's QueryParams. ResourceNotFound without such an experiment, RequestRejected for a filter that the
        service does not accept.
        """
        return self._queried(f"{self._history()}/{kind}/{quote(experiment, safe='')}/runs:query", query)

    def _queried(self, url: str, query: Json) -> Iterator[list[Json]]:
        for _ in range(_MOST_PAGES):
            said = self.arm.post(url, "", query)
            yield list(said.get("value") or ())
            token = said.get("continuationToken")
            if not token:
                return
            query = {**query, "continuationToken": token}

    # -- what the workspace stands on

    def facts(self) -> Json:
        """The workspace itself, remembered."""
        found = self.known.get("workspace", "facts")
        if found is None:
            said = self.arm.get(self.workspace.id, names.WORKSPACES_API)
            properties = said.get("properties") or {}
            found = {
                "location": said.get("location"),
                "discoveryUrl": properties.get("discoveryUrl"),
                "workspaceId": properties.get("workspaceId"),
                "tenant": (said.get("identity") or {}).get("tenantId"),
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
        """Of the cluster's subscription in one location."""
        subscription = self.workspace.virtual_cluster(virtual_cluster).split("/")[2]
        path = (
            f"/subscriptions/{subscription}/providers/Microsoft.MachineLearningServices"
            f"/locations/{location}/instancetypeseries"
        )
        return [one for page in self.arm.pages(path, names.VIRTUAL_CLUSTERS_API) for one in page]

    def _history(self) -> str:
        url = str(self.facts().get("discoveryUrl") or "")
        parts = urlsplit(url)
        if not parts.netloc:
            raise Unreachable(f"the workspace {self.workspace.name} does not say where its run history is")
        return f"{parts.scheme}://{parts.netloc}/history/v1.0{self.workspace.id}"


def each(act: Callable[[S], T], things: Iterable[S]) -> list[T | GoferError]:
    """What comes of each, several at once, in order; an error of gofer's stands for itself.

    When the service cannot be asked, those that were not yet begun are not asked about either.
    """
    todo = list(things)
    away: list[GoferError] = []

    def tried(one: S) -> T | GoferError:
        if away:
            return away[0]
        try:
            return act(one)
        except (Unreachable, CredentialError) as error:
            away.append(error)
            return error
        except GoferError as error:
            return error

    if len(todo) < 2:
        return [tried(one) for one in todo]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(len(todo), AT_ONCE)) as pool:
        return list(pool.map(tried, todo))
