"""Why a run waits or does not start, in words that a person can act on, with what to type next. Pure.

Kueue counts first, then the events of the Job, then the scheduler's word on its pods, then the state of
their containers with the newest event. Kubernetes' own words stand behind ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gofer.backends.base import Waiting
from gofer.backends.kubernetes.state import kueue, scheduling
from gofer.backends.kubernetes.state.job_facts import JobFacts, PodFacts, moment, one_line
from gofer.backends.kubernetes.state.start_troubles import (
    USUAL_PATIENCE,
    Patience,
    explain_trouble,
    trouble_of,
)
from gofer.backends.kubernetes.state.states import observe
from gofer.core.states import Reason, State
from gofer.model.ids import short_id
from gofer.text import format_duration, quote_word

Json = Mapping[str, Any]


class WaitFacts(NamedTuple):
    """What the cluster says of a run that waits. `events` are those of the Job and of its pods. `workload` is
    Kueue's, `ahead` how many runs come first in its queue. `target` is the name of the target. `taints` says
    which taints keep its pod away, where the nodes may be listed.
    """

    job: JobFacts
    events: Sequence[Json] = ()
    workload: Json | None = None
    ahead: int | None = None
    target: str = ""
    taints: Sequence[str] = ()


class _Event(NamedTuple):
    at: float
    kind: str
    name: str
    reason: str
    message: str


def explain(facts: WaitFacts, *, now: float, patience: Patience = USUAL_PATIENCE) -> Waiting | None:
    """Why the run waits, or why it does not start; None for a run that works or has ended."""
    job = facts.job
    seen = observe(job.name, job, now=now, patience=patience)
    if seen.state not in (State.QUEUED, State.PAUSED, State.STARTING, State.UNKNOWN):
        return None
    events = sorted(map(_read_event, facts.events), key=lambda event: event.at)
    found = _kueue(facts) or _without_pod(facts, events)
    pod = waiting_pod(job)
    if found is None and pod is not None and not _failed_to_start(job):
        found = _of_pod(pod, facts, events, now)
    if found is None:
        helps = _against_dead_node(facts) if seen.reason == Reason.NODE_FAILURE else ()
        return Waiting(seen.detail or "Kubernetes has not considered it yet", next=helps)
    before = _before(seen.detail)
    return found._replace(why=f"{before}; {found.why}") if before else found


def _against_dead_node(facts: WaitFacts) -> tuple[str, ...]:
    again = (f"gofer resubmit {short_id(facts.job.name)}",) if facts.job.keeps_dead else ()
    return (*_nodes(facts.target), *again)


# What the state of a run says besides its pod that waits.
_BEFORE = ("nodes are ready", "so it starts again")


def _before(detail: str | None) -> str:
    parts = (detail or "").split("; ")
    return "; ".join(part for part in parts if part.endswith(_BEFORE))


def _kueue(facts: WaitFacts) -> Waiting | None:
    """What Kueue says of a suspended Job."""
    job = facts.job
    if not job.is_suspended or not job.queue:
        return None
    if facts.workload is None:
        words = f"Kueue has not considered it yet, or does not know the queue `{job.queue}`"
        return Waiting(words, next=_show(facts.target))
    found = kueue.explain_workload(facts.workload, job.queue)
    if found is None:
        return Waiting(f"the queue `{job.queue}` has admitted it, and its pods are being made")
    if not found.can_start:
        return Waiting(
            f"{found.words}; ask for less, or set another `queue:` in the target", next=_show(facts.target)
        )
    return Waiting(f"{found.words}{kueue.place_in_line(facts.ahead)}", facts.ahead, next=_show(facts.target))


def _without_pod(facts: WaitFacts, events: Sequence[_Event]) -> Waiting | None:
    """Why Kubernetes makes no pod for the Job."""
    job = facts.job
    if job.is_suspended or any(not pod.is_over for pod in job.pods):
        return None
    refused = [event for event in events if event.reason == "FailedCreate" and event.kind == "Job"]
    newest = max((pod.created_at for pod in job.pods), default=0.0)
    if not refused or refused[-1].at < newest:
        return None
    found = scheduling.explain_refusal(refused[-1].message)
    return Waiting(found.words, next=_show(facts.target))


def _failed_to_start(job: JobFacts) -> bool:
    """Whether the containers of earlier pods could not start: the next pod will do no better."""
    return any(pod.is_over and trouble_of(pod.ended) for pod in job.pods)


def waiting_pod(job: JobFacts) -> PodFacts | None:
    """The pod to explain: the one that is farthest from running."""
    alive = [pod for pod in job.pods if not pod.is_over and not pod.is_leaving]
    pending = [pod for pod in alive if not pod.node] or [pod for pod in alive if pod.waiting]
    return next(iter(pending or alive), None)


def _of_pod(pod: PodFacts, facts: WaitFacts, events: Sequence[_Event], now: float) -> Waiting | None:
    ours = [event for event in events if event.kind == "Pod" and event.name == pod.name]
    if not pod.node:
        return _unscheduled(pod, facts, ours, now)
    return _not_started(pod, facts, ours, now)


def _unscheduled(pod: PodFacts, facts: WaitFacts, events: Sequence[_Event], now: float) -> Waiting:
    target = facts.target
    if pod.held == "SchedulingGated":
        return Waiting(f"a scheduling gate holds its pod ({pod.words})", next=_show(target))
    if pod.held == "SchedulerError":
        return Waiting(f"the scheduler of the cluster reports an error ({pod.words})", next=_show(target))
    if not pod.held:
        waits_s = now - pod.created_at
        if waits_s < 10.0:
            return Waiting("the scheduler has not considered it yet")
        words = f"no scheduler has considered its pod for {format_duration(waits_s, tenths=False)}"
        return Waiting(f"{words}; a scheduler that the target names may not run", next=_show(target))
    words = scheduling.explain_scheduling(pod.words)
    kinds = scheduling.kinds_of(pod.words)
    if facts.taints:
        words += f"; {', '.join(facts.taints)}"
    if "taint" in kinds:
        words += "; `tolerations:` of the target lets a run use nodes with a taint"
    if "labels" in kinds:
        words += "; labels come from `node_selector:` and `gpu_type:` of the target or the run"
    scaled = (scheduling.explain_autoscaler(one.reason, one.message) for one in reversed(events))
    autoscaler = next((text for text in scaled if text), None)
    words = f"{words}; {autoscaler}" if autoscaler else words
    return Waiting(_with(words, pod.words), next=_nodes(target))


# Events of a pod whose container is being created, with our words.
_STEPS = {
    "FailedMount": "a volume cannot be mounted",
    "FailedAttachVolume": "a volume cannot be attached to its node",
    "FailedMapVolume": "a volume cannot be mapped",
    "FailedCreatePodSandBox": "its node cannot create its pod",
    "NetworkNotReady": "the network of its node is not ready",
    "FailedPrepareDynamicResources": "its node cannot prepare its devices",
    "FailedPreStopHook": "a hook of its container failed",
}


def _not_started(pod: PodFacts, facts: WaitFacts, events: Sequence[_Event], now: float) -> Waiting | None:
    """Why the container of a pod with a node does not run."""
    if trouble_of(pod.waiting):
        return Waiting(explain_trouble(pod), next=_show(facts.target))
    newest = next((one for one in reversed(events) if one.reason in (*_STEPS, "Pulling", "Pulled")), None)
    if newest is None:
        return None
    if newest.reason == "Pulling":
        took = format_duration(now - newest.at, tenths=False)
        return Waiting(f"node {pod.node} pulls its image, for {took} so far ({newest.message})")
    if newest.reason in _STEPS:
        words = f"{_STEPS[newest.reason]} on node {pod.node}"
        return Waiting(_with(words, newest.message), next=_show(facts.target))
    return None


def _read_event(event: Json) -> _Event:
    about = event.get("involvedObject") or event.get("regarding") or {}
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
    )
    return _Event(
        next((at for at in map(moment, times) if at is not None), 0.0),
        str(about.get("kind") or ""),
        str(about.get("name") or ""),
        str(event.get("reason") or ""),
        one_line(event.get("message") or event.get("note")),
    )


def _show(target: str) -> tuple[str, ...]:
    return (f"gofer target show {quote_word(target)}",) if target else ()


def _nodes(target: str) -> tuple[str, ...]:
    return (f"gofer list nodes -t {quote_word(target)}",) if target else ()


def _with(words: str, more: str) -> str:
    return f"{words} ({more})" if more else words
