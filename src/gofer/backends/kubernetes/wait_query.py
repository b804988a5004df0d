"""Asks the cluster what gofer.backends.kubernetes.waiting needs to say why a run waits. Blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gofer.backends.kubernetes import kueue
from gofer.backends.kubernetes.capacity import list_allowed, name_of
from gofer.backends.kubernetes.job_facts import JOB_LABEL, JobFacts, read_job
from gofer.backends.kubernetes.waiting import WaitFacts, waiting_pod
from gofer.transport.kubernetes.client import KubeApiError

if TYPE_CHECKING:
    from gofer.transport.kubernetes.client import KubeClient

Json = Mapping[str, Any]


def read_wait_facts(client: KubeClient, namespace: str, name: str, *, target: str) -> WaitFacts | None:
    """What the cluster says of the Job `name`, in three to five requests; None when it has no such Job.

    What the credential may not read is left out. Errors are those of the client.
    """
    try:
        job = client.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    except KubeApiError as error:
        if error.status == 404:
            return None
        raise
    pods = list_allowed(
        client, f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": f"{JOB_LABEL}={name}"}
    )
    facts = read_job(job, pods or ())
    workloads = _read_workloads(client, namespace) if facts.is_suspended and facts.queue else []
    own = next((one for one in workloads if _is_of(one, facts.uid)), None)
    ahead = None if own is None else kueue.count_ahead(workloads, name_of(own))
    return WaitFacts(facts, _read_events(client, namespace, facts, pods or ()), own, ahead, target)


def _read_events(client: KubeClient, namespace: str, facts: JobFacts, pods: Sequence[Json]) -> list[Json]:
    """The events of the Job, and of the pod that waits."""
    pod = waiting_pod(facts)
    uids = [facts.uid]
    uids += [
        str((one.get("metadata") or {}).get("uid"))
        for one in pods
        if pod is not None and name_of(one) == pod.name
    ]
    found: list[Json] = []
    for uid in uids:
        chosen = {"fieldSelector": f"involvedObject.uid={uid}"}
        found += list_allowed(client, f"/api/v1/namespaces/{namespace}/events", chosen) or ()
    return found


def _read_workloads(client: KubeClient, namespace: str) -> list[Json]:
    for version in kueue.VERSIONS:
        path = f"/apis/{kueue.GROUP}/{version}/namespaces/{namespace}/workloads"
        found = list_allowed(client, path)
        if found is not None:
            return found
    return []


def _is_of(workload: Json, uid: str) -> bool:
    """Whether the Workload belongs to the Job with that uid."""
    meta = workload.get("metadata") or {}
    owners = {str(one.get("uid")) for one in meta.get("ownerReferences") or ()}
    return uid in owners or (meta.get("labels") or {}).get(kueue.UID_LABEL) == uid
