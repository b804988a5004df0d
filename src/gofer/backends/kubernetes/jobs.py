"""The Jobs of a namespace, also those that gofer did not start, and the jobs of operators of the cluster:
TrainJob and PyTorchJob of Kubeflow, RayJob, and Job of Volcano.

A plain Job is named by its name, another one by its kind and name: `rayjob/tune`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.backends.base import JobFilter, ServiceJob
from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.capacity import list_allowed, name_of, requests_of
from gofer.backends.kubernetes.state.job_facts import QUEUE_LABEL, conditions_of, moment, one_line, read_job
from gofer.backends.kubernetes.state.scheduling import name_resource
from gofer.backends.kubernetes.state.states import observe
from gofer.core.states import State
from gofer.text import quote_command
from gofer.transport.kubernetes.client import KubeApiError

if TYPE_CHECKING:
    from gofer.transport.kubernetes.client import KubeClient

Json = Mapping[str, Any]

# Labels that Kubernetes and operators set for themselves.
_NOT_TAGS = ("kubernetes.io/", "gofer.run/", "kueue.x-k8s.io/", "controller-uid", "job-name")
# The operators whose jobs have Jobs or pods of their own: these are parts, and not listed beside their whole.
_WHOLES = ("JobSet", "TrainJob", "PyTorchJob", "RayJob", "RayCluster", "MPIJob")


class _Status(NamedTuple):
    """`word` is that of the operator. `words` explain a failure."""

    state: State
    word: str
    words: str = ""


class _Part(NamedTuple):
    """Pods of one shape within a job: how many, their spec, and their command where the spec has none."""

    pods: int
    spec: Json
    command: str = ""


class Operator(NamedTuple):
    """A kind of job of an operator. `group` and `version` are its API, `plural` its collection there."""

    group: str
    version: str
    plural: str
    kind: str
    status: Callable[[Json], _Status]
    parts: Callable[[Json], Iterator[_Part]]


class KubeJobs:
    """The jobs of one namespace. Each call asks the cluster and blocks. Any thread may call."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.service_name = f"{client.context.cluster.server} {namespace}"

    def jobs(self, wanted: JobFilter) -> Sequence[ServiceJob]:
        """The jobs that match, newest first, at most `wanted.most`. Kinds that the credential may not list
        are left out; KubeApiError when it may not list Jobs.
        """
        now = time.time()
        found = [read_plain_job(one, now=now) for one in self._plain_jobs() if not _is_part(one)]
        for operator in self._operators():
            listed = list_allowed(self._client, self._path(operator)) or []
            found += [read_foreign_job(one, operator) for one in listed]
        matching = [job for job in found if fits(job, wanted)]
        return sorted(matching, key=lambda job: -(job.created_at or 0.0))[: wanted.most]

    def job(self, name: str) -> ServiceJob | None:
        """The job of that name; None when the namespace has none."""
        kind, _, plain = name.rpartition("/")
        if not kind:
            found = self._get(names.jobs_path(self._namespace, plain))
            return None if found is None else read_plain_job(found, now=time.time())
        operator = next((one for one in OPERATORS if one.kind.lower() == kind.lower()), None)
        found = None if operator is None else self._get(f"{self._path(operator)}/{plain}")
        return None if found is None or operator is None else read_foreign_job(found, operator)

    def _plain_jobs(self) -> Iterator[Json]:
        path = names.jobs_path(self._namespace)
        found = list_allowed(self._client, path)
        yield from self._client.get(path)["items"] if found is None else found

    def _operators(self) -> list[Operator]:
        """Those whose API the cluster has."""
        try:
            groups = self._client.get("/apis").get("groups") or ()
        except KubeApiError:
            return []
        known = {
            f"{group.get('name')}/{version.get('version')}"
            for group in groups
            for version in group.get("versions") or ()
        }
        return [one for one in OPERATORS if f"{one.group}/{one.version}" in known]

    def _path(self, operator: Operator) -> str:
        return f"/apis/{operator.group}/{operator.version}/namespaces/{self._namespace}/{operator.plural}"

    def _get(self, path: str) -> Json | None:
        try:
            return self._client.get(path)
        except KubeApiError as error:
            if error.status in (400, 404):
                return None
            raise


def fits(job: ServiceJob, wanted: JobFilter) -> bool:
    """Whether the job matches. `tag` is a label, or label=value."""
    key, is_exact, value = wanted.tag.partition("=")
    has_tag = not wanted.tag or (key in job.tags and (not is_exact or job.tags[key] == value))
    return (
        has_tag
        and (not wanted.states or job.state in wanted.states)
        and (not wanted.experiment or job.experiment == wanted.experiment)
        and (not wanted.user or wanted.user.lower() in job.user.lower())
        and job.name.endswith(wanted.name_end)
    )


def read_plain_job(job: Json, *, now: float) -> ServiceJob:
    """The API's description of a Job as a ServiceJob. Pure."""
    facts = read_job(job)
    seen = observe(facts.name, facts, now=now)
    spec, status = job.get("spec") or {}, job.get("status") or {}
    template = (spec.get("template") or {}).get("spec") or {}
    word = facts.end or ("Suspended" if facts.is_suspended else "Running" if facts.ready else "Waiting")
    made = _common(job, facts.name, [_Part(facts.wanted, template)])
    notes = (job.get("metadata") or {}).get("annotations") or {}
    # gofer stops a Job by a deadline that is over, which looks like a failure.
    is_stopped = seen.state == State.FAILED and names.STOP_NOTE in notes
    return made._replace(
        state=State.CANCELLED if is_stopped else seen.state,
        status=word,
        started_at=moment(status.get("startTime")) if seen.state != State.QUEUED else None,
        ended_at=facts.ended_at if facts.is_over else None,
        error=facts.end_words if facts.end == "Failed" and not is_stopped else "",
    )


def read_foreign_job(job: Json, operator: Operator) -> ServiceJob:
    """The API's description of an operator's job as a ServiceJob. Pure."""
    seen = operator.status(job.get("status") or {})
    status = job.get("status") or {}
    made = _common(
        job, f"{operator.kind.lower()}/{name_of(job)}", list(operator.parts(job.get("spec") or {}))
    )
    ended = moment(status.get("completionTime")) or moment(status.get("endTime"))
    return made._replace(
        state=seen.state,
        status=seen.word,
        started_at=moment(status.get("startTime")),
        ended_at=ended if seen.state.is_final else None,
        error=seen.words if seen.state == State.FAILED else "",
    )


def _common(job: Json, name: str, parts: Sequence[_Part]) -> ServiceJob:
    meta = job.get("metadata") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    is_ours = labels.get(names.MANAGED_BY) == names.GOFER
    return ServiceJob(
        name=name,
        state=State.UNKNOWN,
        status="",
        user=str(labels.get(names.USER_LABEL) or ""),
        command=str((is_ours and notes.get(names.COMMAND_NOTE)) or _command(parts)),
        nodes=max(sum(part.pods for part in parts), 1),
        gpus=round(sum(part.pods * _gpus(part.spec) for part in parts)),
        compute=str(labels.get(QUEUE_LABEL) or ""),
        created_at=moment(meta.get("creationTimestamp")),
        tags={key: str(value) for key, value in labels.items() if not any(one in key for one in _NOT_TAGS)},
        is_ours=is_ours,
    )


def _gpus(spec: Json) -> float:
    return sum(amount for name, amount in requests_of(spec).items() if name_resource(name) == "GPUs")


def _command(parts: Iterable[_Part]) -> str:
    for part in parts:
        if part.command:
            return one_line(part.command)
        for container in part.spec.get("containers") or ():
            words = [*(container.get("command") or ()), *(container.get("args") or ())]
            if words:
                return one_line(quote_command(list(map(str, words))))
    return ""


def _is_part(job: Json) -> bool:
    owners = (job.get("metadata") or {}).get("ownerReferences") or ()
    return any(one.get("kind") in _WHOLES for one in owners)


def _replicas(specs: Iterable[Json], key: str = "replicas") -> Iterator[_Part]:
    for one in specs:
        count = one.get(key)
        pods = 1 if count is None else int(count)
        yield _Part(pods, (one.get("template") or {}).get("spec") or {})


def _kubeflow_parts(spec: Json) -> Iterator[_Part]:
    yield from _replicas((spec.get("pytorchReplicaSpecs") or {}).values())


def _trainer_parts(spec: Json) -> Iterator[_Part]:
    trainer = spec.get("trainer") or {}
    container = {
        "command": trainer.get("command"),
        "args": trainer.get("args"),
        "resources": trainer.get("resourcesPerNode") or {},
    }
    yield _Part(int(trainer.get("numNodes") or 1), {"containers": [container]})


def _ray_parts(spec: Json) -> Iterator[_Part]:
    cluster = spec.get("rayClusterSpec") or {}
    head = (cluster.get("headGroupSpec") or {}).get("template") or {}
    yield _Part(1, head.get("spec") or {}, str(spec.get("entrypoint") or ""))
    yield from _replicas(cluster.get("workerGroupSpecs") or ())


def _volcano_parts(spec: Json) -> Iterator[_Part]:
    yield from _replicas(spec.get("tasks") or ())


_CONDITIONS = {
    "Created": State.QUEUED,
    "Suspended": State.PAUSED,
    "Restarting": State.STARTING,
    "Running": State.RUNNING,
    "Succeeded": State.SUCCEEDED,
    "Complete": State.SUCCEEDED,
    "Failed": State.FAILED,
}


def _by_conditions(status: Json) -> _Status:
    """The last of these conditions that is true, in the order of a job's life."""
    conditions = conditions_of(status)
    found = _Status(State.QUEUED, "Created")
    if any(one.get("active") or one.get("ready") for one in status.get("jobsStatus") or ()):
        found = _Status(State.RUNNING, "Running")
    for word, state in _CONDITIONS.items():
        if conditions.get(word, {}).get("status") == "True":
            found = _Status(state, word, one_line(conditions[word].get("message")))
    return found


_RAY = {
    "": State.QUEUED,
    "New": State.QUEUED,
    "Initializing": State.STARTING,
    "Waiting": State.STARTING,
    "Retrying": State.STARTING,
    "Running": State.RUNNING,
    "Suspending": State.PAUSED,
    "Suspended": State.PAUSED,
    "Complete": State.SUCCEEDED,
    "Failed": State.FAILED,
}


def _ray_status(status: Json) -> _Status:
    word = str(status.get("jobDeploymentStatus") or "")
    state, job = _RAY.get(word, State.UNKNOWN), str(status.get("jobStatus") or "")
    if state == State.SUCCEEDED and job in ("FAILED", "STOPPED"):
        state = State.FAILED if job == "FAILED" else State.CANCELLED
    return _Status(state, word or "New", one_line(status.get("message")))


_VOLCANO = {
    "": State.QUEUED,
    "Pending": State.QUEUED,
    "Restarting": State.STARTING,
    "Running": State.RUNNING,
    "Completing": State.RUNNING,
    "Terminating": State.RUNNING,
    "Aborting": State.RUNNING,
    "Aborted": State.CANCELLED,
    "Completed": State.SUCCEEDED,
    "Terminated": State.FAILED,
    "Failed": State.FAILED,
}


def _volcano_status(status: Json) -> _Status:
    found = status.get("state") or {}
    word = str(found.get("phase") or "")
    return _Status(_VOLCANO.get(word, State.UNKNOWN), word or "Pending", one_line(found.get("message")))


OPERATORS = (
    Operator("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", _by_conditions, _trainer_parts),
    Operator("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", _by_conditions, _kubeflow_parts),
    Operator("ray.io", "v1", "rayjobs", "RayJob", _ray_status, _ray_parts),
    Operator("batch.volcano.sh", "v1alpha1", "jobs", "VolcanoJob", _volcano_status, _volcano_parts),
)
