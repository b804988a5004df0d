"""The plan of a run on Kubernetes: its Job and the request for its pods. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from gofer.backends.kubernetes import manifest
from gofer.backends.kubernetes.manifest import GpuNodes, PodNeeds
from gofer.backends.kubernetes.options import KubernetesOptions
from gofer.backends.node_request import CommonRequest, common_fields
from gofer.model.job import Job
from gofer.model.layout import Layout
from gofer.model.run import RunRecord


class KubernetesRequest(CommonRequest, frozen=True, kw_only=True):
    """Row i of an array has the values `rows[i]` of `columns`; a single run has no rows.

    `store`, a folder that the nodes can see, is always None: the uploader of the nodes writes to the store.
    """

    store: str | None = None
    scratch: str | None = None
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class KubernetesPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent for one run or one array: the Job in `body`, and the request in a Secret."""

    record: RunRecord
    request: KubernetesRequest
    namespace: str
    body: dict[str, Any]

    def render(self) -> str:
        """The Job and the request, as YAML."""
        import yaml  # only `--dry-run` prints a plan

        request = msgspec.to_builtins(self.request)
        parts = [
            f"# namespace: {self.namespace}\n" + yaml.safe_dump(self.body, sort_keys=False, width=1000),
            f"# the request in the Secret {self.record.id}\n"
            + yaml.safe_dump(request, sort_keys=False, allow_unicode=True, width=1000),
        ]
        return "---\n".join(parts)


class KubernetesPlanInput(NamedTuple):
    """What `KubernetesBackend.prepare` reads: the mark of the agent, the namespace, and the nodes that have
    GPUs of the wanted type.
    """

    agent: str
    namespace: str
    gpu_nodes: GpuNodes | None


def make_plan(record: RunRecord, options: KubernetesOptions, prepared: KubernetesPlanInput) -> KubernetesPlan:
    """The plan. Equal for equal records and targets."""
    array = record.array
    common = common_fields(record, takes_nodes_back=True)
    request = KubernetesRequest(
        **{**common, "time_limit_s": limit_s(record.job, options)},
        columns=() if array is None else array.columns,
        rows=() if array is None else array.rows,
    )
    needs = needs_of(record.job, record.layout, options)._replace(gpu_nodes=prepared.gpu_nodes)
    body = manifest.job(record, needs, options, agent=prepared.agent)
    return KubernetesPlan(record=record, request=request, namespace=prepared.namespace, body=body)


def needs_of(job: Job, layout: Layout, options: KubernetesOptions) -> PodNeeds:
    """What each pod of a job in this shape needs. The time is that of all attempts together."""
    time_s = limit_s(job, options)
    whole_s = None if time_s is None else time_s * (1 + job.retries)
    return PodNeeds(job.resources, layout, job.grace_s, whole_s)


def limit_s(job: Job, options: KubernetesOptions) -> float | None:
    """The time limit of the job, or else that of the target."""
    return job.time_limit_s if job.time_limit_s is not None else options.time
