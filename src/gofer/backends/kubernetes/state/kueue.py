"""What Kueue says of a run that waits in one of its queues: its Workload in plain words. Pure.

Kueue makes a Workload for each Job with a queue, and lets the Job go on when the queue has quota for it.
Kueue's own words stand behind ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gofer.backends.kubernetes.state.job_facts import conditions_of, moment, one_line
from gofer.core.states import Reason
from gofer.text import count_runs

Json = Mapping[str, Any]

GROUP = "kueue.x-k8s.io"
# The API of Kueue since 0.15 and that of earlier versions.
VERSIONS = ("v1beta2", "v1beta1")
UID_LABEL = "kueue.x-k8s.io/job-uid"

_NEVER = re.compile(r"maximum capacity|exceeds? (?:the )?max|no(?:t| )match|doesn't exist|not found", re.I)
_SHORT = re.compile(r"insufficient (?:unused )?quota for (\S+) in flavor (\S+?),")
_NAMES = {"nvidia.com/gpu": "GPUs", "amd.com/gpu": "GPUs", "cpu": "CPUs", "pods": "pods"}
_EVICTED = {
    "Preempted": (Reason.PREEMPTED, "Kueue gave its place to a job of higher priority"),
    "PodsReadyTimeout": (Reason.NODE_FAILURE, "its pods did not start in the time that Kueue gives them"),
    "NodeFailures": (Reason.NODE_FAILURE, "one of its nodes failed"),
    "AdmissionCheck": (Reason.PREEMPTED, "a check of its queue failed"),
    "ClusterQueueStopped": (Reason.PREEMPTED, "its ClusterQueue was stopped"),
    "LocalQueueStopped": (Reason.PREEMPTED, "its queue was stopped"),
    "InactiveWorkload": (Reason.REJECTED, "it was deactivated"),
}
_WAITING_FOR = {
    "WaitingForPreemptedWorkloads": "Kueue has moved other jobs out of its way, and they are ending",
    "PreemptionGated": "Kueue may not move other jobs out of its way yet",
    "TopologyPlacementFailed": "no part of the cluster has enough free nodes beside each other",
    "WaitingForPodsReady": "Kueue waits until the jobs before it have started",
}


class WorkloadMeaning(NamedTuple):
    """`words` say why the Job waits. `can_start` is False where waiting does not help. `reason` is why the
    Job lost the place that it had.
    """

    words: str
    can_start: bool = True
    reason: Reason | None = None


def explain_workload(workload: Json, queue: str) -> WorkloadMeaning | None:
    """Why the Job of a Workload waits; None for a Job that Kueue has let go on."""
    status = _part(workload, "status")
    conditions = conditions_of(status)
    if _is_true(conditions, "Admitted"):
        return None
    lost = _lost_place(conditions)
    if workload.get("spec", {}).get("active") is False:
        return WorkloadMeaning(_deactivated(conditions), can_start=False, reason=Reason.REJECTED)
    if _is_true(conditions, "QuotaReserved"):
        return WorkloadMeaning(_checks(status), reason=lost.reason if lost else None)
    quota = conditions.get("QuotaReserved", {})
    word, message = str(quota.get("reason") or ""), one_line(quota.get("message"))
    found = _without_quota(word, message, queue)
    if lost is None:
        return found
    return found._replace(words=f"{lost.words}; now {found.words}", reason=lost.reason)


def count_ahead(workloads: Sequence[Json], name: str) -> int | None:
    """How many Workloads of the namespace come before this one in its queue; None for an unknown name.

    Kueue sorts by priority, then by age. Workloads of other namespaces are not known.
    """
    mine = next((one for one in workloads if _name(one) == name), None)
    if mine is None:
        return None
    queue = _part(mine, "spec").get("queueName")
    waiting = [
        one
        for one in workloads
        if _part(one, "spec").get("queueName") == queue
        and not _is_true(conditions_of(_part(one, "status")), "QuotaReserved")
        and not _is_true(conditions_of(_part(one, "status")), "Finished")
    ]
    return sum(_order(one) < _order(mine) for one in waiting)


def describe_queues(local: Sequence[Json]) -> list[dict[str, object]]:
    """The queues of a namespace, for `gofer target show`."""
    return [
        {
            "name": _name(one),
            "cluster_queue": str(_part(one, "spec").get("clusterQueue") or ""),
            "waiting": int(_part(one, "status").get("pendingWorkloads") or 0),
            "admitted": int(_part(one, "status").get("admittedWorkloads") or 0),
            "state": _queue_state(one),
        }
        for one in local
    ]


def _queue_state(queue: Json) -> str:
    active = conditions_of(_part(queue, "status")).get("Active", {})
    if not active:
        return "unknown"
    return "active" if active.get("status") == "True" else one_line(active.get("message")) or "stopped"


def _lost_place(conditions: Mapping[str, Json]) -> WorkloadMeaning | None:
    evicted = conditions.get("Evicted", {})
    if evicted.get("status") != "True":
        return None
    word = str(evicted.get("reason") or "")
    reason, words = _EVICTED.get(word, (Reason.PREEMPTED, f"Kueue took its place (`{word}`)"))
    return WorkloadMeaning(words, reason=reason)


def _deactivated(conditions: Mapping[str, Json]) -> str:
    found = conditions.get("DeactivationTarget") or conditions.get("Evicted") or {}
    message = one_line(found.get("message"))
    return f"Kueue gave it up, so it can never start{f' ({message})' if message else ''}"


def _checks(status: Json) -> str:
    """The checks that a Workload with quota still waits for."""
    waits = [one for one in status.get("admissionChecks") or () if one.get("state") != "Ready"]
    if not waits:
        return "Kueue has reserved its quota and is about to let it go on"
    said = "; ".join(
        f"`{one.get('name')}` is {one.get('state')}{_bracketed(one.get('message'))}" for one in waits
    )
    return f"its quota is reserved, and its queue waits for a check: {said}"


def _without_quota(word: str, message: str, queue: str) -> WorkloadMeaning:
    if word in _WAITING_FOR:
        return WorkloadMeaning(f"{_WAITING_FOR[word]}{_bracketed(message)}")
    if word == "Inadmissible" or "doesn't exist" in message:
        return WorkloadMeaning(
            f"the queue `{queue}` admits nothing{_bracketed(message)}", can_start="inactive" in message
        )
    if _NEVER.search(message):
        return WorkloadMeaning(
            f"it can never be admitted: it asks for more than the queue `{queue}` has{_bracketed(message)}",
            can_start=False,
        )
    short = _SHORT.search(message)
    if short:
        what = _NAMES.get(short[1], short[1])
        where = f"the {what} of the flavor `{short[2]}` in the queue `{queue}` are in use"
        return WorkloadMeaning(f"{where}{_bracketed(message)}")
    return WorkloadMeaning(f"it waits in the queue `{queue}`{_bracketed(message)}")


def place_in_line(ahead: int | None) -> str:
    """`; 3 runs of this namespace wait before it`, or nothing."""
    return f"; {count_runs(ahead)} of this namespace come first" if ahead else ""


def _bracketed(message: object) -> str:
    words = one_line(message)
    return f" ({words})" if words else ""


def _order(workload: Json) -> tuple[int, float, str]:
    spec, meta = _part(workload, "spec"), _part(workload, "metadata")
    return -int(spec.get("priority") or 0), moment(meta.get("creationTimestamp")) or 0.0, _name(workload)


def _name(document: Json) -> str:
    return str(_part(document, "metadata").get("name") or "")


def _is_true(conditions: Mapping[str, Json], word: str) -> bool:
    return conditions.get(word, {}).get("status") == "True"


def _part(document: Json, key: str) -> Json:
    found = document.get(key)
    return found if isinstance(found, Mapping) else {}
