"""Asks the cluster what gofer.backends.kubernetes.state.wait_reasons needs to say why a run waits. Blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.capacity import explain_taints, list_allowed, name_of
from gofer.backends.kubernetes.state import kueue
from gofer.backends.kubernetes.state.job_facts import JobFacts, PodFacts, read_job, read_pod
from gofer.backends.kubernetes.state.scheduling import kinds_of
from gofer.backends.kubernetes.state.wait_reasons import WaitFacts, waiting_pod
from gofer.transport.kubernetes.client import KubeApiError

if TYPE_CHECKING:
    from gofer.transport.kubernetes.client import KubeClient

Json = Mapping[str, Any]


def read_wait_facts(
    client: KubeClient, namespace: str, name: str, *, row: int | None = None, target: str
) -> WaitFacts | None:
    """What the cluster says of the Job `name`, or of one row of it; None when it has no such Job.

    Asks three to six times. What the credential may not read is left out. Errors are those of the client.
    """
    try:
        job = client.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    except KubeApiError as error:
        if error.status == 404:
            return None
        raise
    pods = list_allowed(
        client, f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": f"{names.JOB_NAME_LABEL}={name}"}
    )
    if row is not None:
        pods = [one for one in pods or () if _is_of_row(one, job, row)]
    facts = read_job(job, pods or ())
    workloads = _read_workloads(client, namespace) if facts.is_suspended and facts.queue else []
    own = next((one for one in workloads if _is_of(one, facts.uid)), None)
    ahead = None if own is None else kueue.count_ahead(workloads, name_of(own))
    pod = waiting_pod(facts)
    raw: Json = next((one for one in pods or () if pod is not None and name_of(one) == pod.name), {})
    taints = _read_taints(client, pod, raw)
    return WaitFacts(facts, _read_events(client, namespace, facts, raw), own, ahead, target, taints)


def _is_of_row(pod: Json, job: Json, row: int) -> bool:
    """Whether the pod works on this row of an array: each row has the indexes of its nodes."""
    nodes = int(((job.get("metadata") or {}).get("annotations") or {}).get(names.NODES_NOTE) or 1)
    index = read_pod(pod).index
    return index is not None and index // nodes == row


def _read_taints(client: KubeClient, pod: PodFacts | None, raw: Json) -> list[str]:
    """What the taints of the nodes are, for a pod that they keep away. The scheduler itself does not say."""
    if pod is None or "taint" not in kinds_of(pod.words):
        return []
    nodes = list_allowed(client, "/api/v1/nodes") or ()
    return explain_taints(nodes, (raw.get("spec") or {}).get("tolerations") or ())


def _read_events(client: KubeClient, namespace: str, facts: JobFacts, pod: Json) -> list[Json]:
    """The events of the Job, and of the pod that waits."""
    found: list[Json] = []
    for uid in (facts.uid, (pod.get("metadata") or {}).get("uid")):
        if uid:
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
