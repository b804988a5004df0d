"""The part of a Job and of its pods that decides the state of a run. Pure.

A Job has some ten kilobytes as JSON, and gofer keeps the facts of all runs of a person between two commands.
`read_job` takes out what counts, `encode` makes plain values of it for gofer.backends.polling, and `decode`
reads these again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gofer.backends.kubernetes import names
from gofer.core.json_text import parse_json
from gofer.errors import UsageError
from gofer.text import parse_time

Json = Mapping[str, Any]

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# How many nodes must work before the run does, where that is fewer than the pods that are wanted.
LEAST_NODES = "gofer.run/least-nodes"
_MOST_WORDS = 400
_NEVER = "0001-01-01T00:00:00Z"


class PodFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pod. Times are seconds since the epoch, by the clock of the cluster.

    `node` is empty until the pod has a node; `held` then says why: Unschedulable, SchedulingGated or another
    word of the scheduler. `waiting` is the word for a container that has not started, `ended` the word for
    one that has ended, `reason` the word of the pod, and `disruption` the word for who took the pod away.
    `words` are the sentences beside these words. `silent_since`: since when the node has not answered.
    `outcome` is what the agent wrote when it ended; `output` is what the container printed last, where the
    agent wrote nothing.
    """

    name: str
    phase: str = ""
    index: int | None = None
    node: str = ""
    created_at: float = 0.0
    is_leaving: bool = False
    held: str = ""
    waiting: str = ""
    image: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    ended: str = ""
    exit_code: int | None = None
    reason: str = ""
    disruption: str = ""
    words: str = ""
    silent_since: float | None = None
    memory: str = ""
    outcome: dict[str, Any] | None = None
    output: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the pod has ended: its containers will not run again."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_taken(self) -> bool:
        """Whether the cluster has given the pod up while nobody knows whether its container still runs."""
        return self.is_leaving and self.silent_since is not None and not self.is_over


class JobFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One Job with its pods, the oldest first.

    `wanted` is the number of pods that the Job wants at once, `least` how many of them a run needs. `end` is
    Complete or Failed when the Job is over, and FailureTarget or SuccessCriteriaMet while its last pods end;
    `end_reason` and `end_words` belong to it. `queue` is the queue of Kueue that admits the Job.
    `keeps_dead`: a pod on a node that does not answer is not replaced (`recovery: safe`).
    """

    name: str
    uid: str = ""
    created_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    is_suspended: bool = False
    is_leaving: bool = False
    queue: str = ""
    wanted: int = 1
    least: int = 1
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    keeps_dead: bool = False
    end: str = ""
    end_reason: str = ""
    end_words: str = ""
    pods: tuple[PodFacts, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the Job is over. A run can have failed while its Job is not over: the Job must then be
        deleted, or its next pod would start the run again.
        """
        return self.end in ("Complete", "Failed")


def read_job(job: Json, pods: Iterable[Json] = ()) -> JobFacts:
    """The facts of a Job from the API and of these pods of it."""
    meta, spec, status = _part(job, "metadata"), _part(job, "spec"), _part(job, "status")
    wanted = _number(spec.get("parallelism"), 1)
    least = _number(_part(meta, "annotations").get(LEAST_NODES), wanted)
    end = _end_of(status)
    found = sorted(map(read_pod, pods), key=lambda pod: (pod.created_at, pod.name))
    return JobFacts(
        name=str(meta.get("name") or ""),
        uid=str(meta.get("uid") or ""),
        created_at=moment(meta.get("creationTimestamp")) or 0.0,
        started_at=moment(status.get("startTime")),
        ended_at=moment(status.get("completionTime")) or moment(end.get("lastTransitionTime")),
        is_suspended=bool(spec.get("suspend")),
        is_leaving="deletionTimestamp" in meta,
        queue=str(_part(meta, "labels").get(QUEUE_LABEL) or ""),
        wanted=wanted,
        least=min(least, wanted),
        active=_number(status.get("active"), 0),
        ready=_number(status.get("ready"), 0),
        succeeded=_number(status.get("succeeded"), 0),
        failed=_number(status.get("failed"), 0),
        keeps_dead=spec.get("podReplacementPolicy") == "Failed",
        end=str(end.get("type") or ""),
        end_reason=str(end.get("reason") or ""),
        end_words=one_line(end.get("message")),
        pods=tuple(found),
    )


def read_pod(pod: Json) -> PodFacts:
    """The facts of one pod from the API."""
    meta, spec, status = _part(pod, "metadata"), _part(pod, "spec"), _part(pod, "status")
    labels, conditions = _part(meta, "labels"), conditions_of(status)
    container = _deciding_container(status)
    state = _part(container, "state")
    waiting, running = _part(state, "waiting"), _part(state, "running")
    ended = _part(state, "terminated")
    scheduled, disrupted = conditions.get("PodScheduled", {}), conditions.get("DisruptionTarget", {})
    node, outcome = str(spec.get("nodeName") or ""), _outcome(ended.get("message"))
    is_held = not node and scheduled.get("status") == "False"
    words = [scheduled.get("message") if is_held else None, waiting.get("message"), status.get("message")]
    words += [disrupted.get("message"), None if _ran(ended) else ended.get("message")]
    return PodFacts(
        name=str(meta.get("name") or ""),
        phase=str(status.get("phase") or ""),
        index=_index(labels.get(names.INDEX_LABEL)),
        node=node,
        created_at=moment(meta.get("creationTimestamp")) or 0.0,
        is_leaving="deletionTimestamp" in meta,
        held=str(scheduled.get("reason") or "") if is_held else "",
        waiting=str(waiting.get("reason") or ""),
        image=str(container.get("image") or ""),
        started_at=moment(running.get("startedAt")) or moment(ended.get("startedAt")),
        ended_at=moment(ended.get("finishedAt")),
        ended=str(ended.get("reason") or ""),
        exit_code=ended.get("exitCode") if isinstance(ended.get("exitCode"), int) else None,
        reason=str(status.get("reason") or ""),
        disruption=_true_reason(disrupted),
        words=next((text for text in map(one_line, words) if text), ""),
        silent_since=_silent_since(conditions, running),
        memory=_memory_limit(spec),
        outcome=outcome,
        output=last_line(ended.get("message")) if outcome is None and _ran(ended) else "",
    )


def encode(facts: JobFacts) -> dict[str, Any]:
    """Plain values for gofer.backends.polling. `state` changes with all that changes the state of the run."""
    pods = [
        (one.name, one.phase, one.node, one.held, one.waiting, one.ended, one.reason, one.disruption)
        for one in facts.pods
    ]
    state = f"{facts.is_suspended} {facts.active} {facts.ready} {facts.end} {facts.end_reason} {pods}"
    return {"row": None, "state": state, **msgspec.to_builtins(facts), "name": facts.name}


def decode(kept: Json) -> JobFacts:
    """What `encode` made. msgspec.ValidationError for anything else."""
    return msgspec.convert({key: kept[key] for key in kept if key not in ("row", "state")}, JobFacts)


def moment(text: object) -> float | None:
    """Seconds since the epoch for a time of the API; None for no time."""
    if not isinstance(text, str) or not text or text == _NEVER:
        return None
    try:
        return parse_time(text)
    except UsageError:
        return None


def conditions_of(status: Json) -> dict[str, Json]:
    """The conditions of an object by their type."""
    return {str(one.get("type")): one for one in status.get("conditions") or () if isinstance(one, Mapping)}


def one_line(text: object) -> str:
    """A message of the API in one line of bounded length."""
    words = " ".join(str(text or "").split())
    return words if len(words) <= _MOST_WORDS else f"{words[:_MOST_WORDS]}…"


def last_line(text: object) -> str:
    """The last line of an output that has letters in it."""
    lines = [line.strip() for line in str(text or "").splitlines()]
    return one_line(next((line for line in reversed(lines) if line), ""))


def _part(document: Json, key: str) -> Json:
    found = document.get(key)
    return found if isinstance(found, Mapping) else {}


def _number(value: object, otherwise: int) -> int:
    try:
        return int(str(value))
    except ValueError:
        return otherwise


def _index(text: object) -> int | None:
    found = _number(text, -1)
    return found if found >= 0 else None


def _end_of(status: Json) -> Json:
    """The condition that ends the Job; the final one where there are two."""
    conditions = conditions_of(status)
    for word in ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"):
        if conditions.get(word, {}).get("status") == "True":
            return conditions[word]
    return {}


def _deciding_container(status: Json) -> Json:
    """The run's container, or an init container that keeps it from starting."""
    for one in status.get("initContainerStatuses") or ():
        state = _part(one, "state")
        failed = _part(state, "terminated").get("exitCode") not in (None, 0)
        if failed or _part(state, "waiting").get("reason") not in (None, "PodInitializing"):
            return one if isinstance(one, Mapping) else {}
    found: Sequence[Json] = status.get("containerStatuses") or ()
    named = [one for one in found if one.get("name") == names.CONTAINER]
    return next(iter(named or found), {})


def _ran(ended: Json) -> bool:
    """Whether the container ran, so that its message is its own and not the kubelet's."""
    return bool(ended) and ended.get("reason") not in ("StartError", "ContainerCannotRun")


def _outcome(text: object) -> dict[str, Any] | None:
    """The outcome that the agent wrote; None where the message is something else, such as lines of a log."""
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        found = parse_json(text)
    except ValueError:
        return None
    return dict(found) if isinstance(found, Mapping) and isinstance(found.get("state"), str) else None


def _true_reason(condition: Json) -> str:
    return str(condition.get("reason") or "") if condition.get("status") == "True" else ""


def _silent_since(conditions: Mapping[str, Json], running: Json) -> float | None:
    """The cluster marks the pods of a silent node as not ready although their containers run."""
    ready = conditions.get("Ready", {})
    is_marked = bool(running) and ready.get("status") == "False" and not ready.get("reason")
    return moment(ready.get("lastTransitionTime")) if is_marked else None


def _memory_limit(spec: Json) -> str:
    for one in spec.get("containers") or ():
        if one.get("name") == names.CONTAINER:
            return str(_part(_part(one, "resources"), "limits").get("memory") or "")
    return ""
