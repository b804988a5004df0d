"""The state of each run: what Kubernetes says of a Job and its pods, in gofer's terms. Pure.

What the agent wrote when it ended counts more than the status of its pod, and that more than the condition of
the Job. The records in the folder of the run count more than all of these; the caller reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gofer.backends.kubernetes.state.job_facts import JobFacts, PodFacts
from gofer.backends.kubernetes.state.scheduling import explain_scheduling
from gofer.backends.kubernetes.state.start_troubles import (
    USUAL_PATIENCE,
    Patience,
    explain_trouble,
    trouble_of,
)
from gofer.core.states import Reason, State
from gofer.model.decode import convert
from gofer.model.run import Observation, RecordedOutcome
from gofer.text import format_duration

# The exit code of an agent whose run is over and did not succeed: the Job must not start another pod.
SETTLED = 91
_KILLED = 137
_SHELL_SIGNALS = range(129, 193)
# What a container whose node came back after a crash ends with: nobody saw how it ended.
_UNSEEN = 255


class KubeMeaning(NamedTuple):
    """`words` explain the word of Kubernetes where gofer's state says less."""

    state: State
    reason: Reason | None = None
    words: str | None = None


_CREATING = {
    "ContainerCreating": "its container is being created",
    "PodInitializing": "its pod is being prepared",
    "CrashLoopBackOff": "its container ended, and Kubernetes waits before it starts it again",
    "NetworkNotReady": "the network of its node is not ready",
}

# The reason of a pod that was taken away, or that its node refused. Such a pod is replaced.
_TAKEN = {
    "PreemptionByScheduler": (Reason.PREEMPTED, "a pod of higher priority took its place"),
    "Preempting": (Reason.PREEMPTED, "a pod of higher priority took its place"),
    "EvictionByEvictionAPI": (Reason.PREEMPTED, "its node is being drained"),
    "TerminationByKubelet": (Reason.PREEMPTED, "its node ended it"),
    "Evicted": (Reason.PREEMPTED, "its node evicted it"),
    "Terminated": (Reason.PREEMPTED, "its node was shut down"),
    "NodeShutdown": (Reason.PREEMPTED, "its node was shut down"),
    "Shutdown": (Reason.PREEMPTED, "its node was shut down"),
    "DeletionByTaintManager": (Reason.NODE_FAILURE, "its node did not answer or was closed to it"),
    "DeletionByPodGC": (Reason.NODE_FAILURE, "its node no longer exists"),
    "NodeLost": (Reason.NODE_FAILURE, "its node does not answer"),
    "UnexpectedAdmissionError": (Reason.NODE_FAILURE, "its node refused it"),
    "TopologyAffinityError": (Reason.NODE_FAILURE, "its node refused it"),
    "NodeAffinity": (Reason.NODE_FAILURE, "its node refused it"),
    "FailedPrepareDynamicResources": (Reason.NODE_FAILURE, "its node could not prepare its devices"),
}

_JOB_ENDS = {
    "DeadlineExceeded": (Reason.TIME_LIMIT, "its Job reached its deadline"),
    "BackoffLimitExceeded": (Reason.NODE_FAILURE, "its pods ended or were taken away too often"),
    "PodFailurePolicy": (Reason.EXIT_CODE, "one of its pods failed"),
    "FailedIndexes": (Reason.EXIT_CODE, "some of its pods failed"),
    "MaxFailedIndexesExceeded": (Reason.EXIT_CODE, "too many of its pods failed"),
}


def observe(run_id: str, facts: JobFacts, *, now: float, patience: Patience = USUAL_PATIENCE) -> Observation:
    """The observation of one run. A state that is final while `facts.is_over` is False means that the caller
    has to delete the Job.
    """
    end = _end(facts)
    if end is None:
        meaning, started = _unfinished(facts, now, patience), _first_start(facts)
        has_started = meaning.state in (State.RUNNING, State.STARTING) or meaning.state.is_final
        end = RecordedOutcome(
            state=meaning.state,
            reason=meaning.reason,
            detail=meaning.words,
            started_at=started if has_started else None,
            ended_at=now if meaning.state.is_final else None,
        )
    fields = {name: getattr(end, name) for name in RecordedOutcome.__struct_fields__}
    return Observation(run_id=run_id, **fields)


def _end(facts: JobFacts) -> RecordedOutcome | None:
    """How the run ended; None while it goes on."""
    written = _written_end(facts)
    if not facts.is_over:
        # The agent of a run with one pod knows the end before the Job does.
        is_quiet = facts.wanted == 1 and not facts.active and not facts.is_suspended
        return written if is_quiet and facts.pods and facts.pods[-1].is_over else None
    if written is not None:
        return written
    if facts.end == "Complete":
        return RecordedOutcome(
            state=State.SUCCEEDED, started_at=_first_start(facts), ended_at=facts.ended_at or _last_end(facts)
        )
    return _failure(facts)


def _written_end(facts: JobFacts) -> RecordedOutcome | None:
    """The end that the agents wrote. Where they differ, a success counts for a Job that is complete, and else
    the first failure of the run's own.
    """
    found = [(pod, end) for pod in facts.pods if (end := _written(pod)) is not None]
    if facts.end == "Complete":
        done = next((end for _, end in found if end.state == State.SUCCEEDED), None)
        if done is not None:
            return done
    bad = [(pod, end) for pod, end in found if end.state != State.SUCCEEDED]
    if not bad:
        is_refuted = facts.end == "Failed"
        return None if is_refuted or not found else found[-1][1]
    own = [(pod, end) for pod, end in bad if end.reason not in (Reason.PREEMPTED, Reason.NODE_FAILURE)]
    if not own and facts.end != "Failed":
        return None  # such a pod is replaced
    return min(own or bad, key=lambda one: one[0].ended_at or 0.0)[1]


def _written(pod: PodFacts) -> RecordedOutcome | None:
    """What the agent of the pod wrote; None where it wrote nothing, and for an attempt that starts again."""
    end = None if pod.outcome is None else convert(pod.outcome, RecordedOutcome)
    if end is None or not end.state.is_final:
        return None
    times = {"started_at": end.started_at or pod.started_at, "ended_at": end.ended_at or pod.ended_at}
    fields = {name: getattr(end, name) for name in RecordedOutcome.__struct_fields__}
    return RecordedOutcome(**{**fields, **times})


def _failure(facts: JobFacts) -> RecordedOutcome:
    """The end of a Job that failed and whose agents wrote nothing."""
    reason, words = _JOB_ENDS.get(facts.end_reason, (Reason.EXIT_CODE, f"its Job failed: {facts.end_reason}"))
    exit_code = None
    ended = [pod for pod in facts.pods if pod.is_over and pod.phase == "Failed"]
    own = [pod for pod in ended if _fault_of(pod)[0] not in (Reason.PREEMPTED, Reason.NODE_FAILURE)]
    if ended and reason != Reason.TIME_LIMIT:
        # The first pod with a fault of its own; the others often end because that one did.
        pod = own[0] if own else ended[-1]
        reason, text = _fault_of(pod)
        exit_code = pod.exit_code if pod.exit_code not in (None, SETTLED, _UNSEEN) else None
        words = text if own else f"{words}, at last because {text}"
    elif facts.end_words and facts.end_reason not in _JOB_ENDS:
        words = f"{words} ({facts.end_words})"
    return RecordedOutcome(
        state=State.FAILED,
        reason=reason,
        detail=words,
        exit_code=exit_code,
        started_at=_first_start(facts),
        ended_at=facts.ended_at or _last_end(facts),
    )


def fault_of(pod: PodFacts) -> tuple[Reason, str]:
    """Why a pod that has ended or was taken away did not succeed, without what its agent wrote."""
    return _fault_of(pod)


def _fault_of(pod: PodFacts) -> tuple[Reason, str]:
    if pod.ended == "OOMKilled" and pod.exit_code != 0:
        return Reason.OUT_OF_MEMORY, _memory_words(pod)
    if pod.reason == "DeadlineExceeded":
        return Reason.TIME_LIMIT, "its pod reached its deadline"
    if trouble_of(pod.ended):
        return Reason.SETUP, explain_trouble(pod)
    if pod.reason == "Evicted" and not pod.disruption and "exceed" in pod.words:
        # The pod went above a limit of its own; for a pressure of the node the kubelet gives a condition too.
        return Reason.EXIT_CODE, _with("its node evicted it for using too much", pod.words)
    word = pod.disruption if pod.disruption in _TAKEN else pod.reason
    if word in _TAKEN:
        reason, words = _TAKEN[word]
        return reason, _with(words, _beyond(pod.words))
    if word.startswith("OutOf"):
        return Reason.NODE_FAILURE, _with(f"its node had too little {word.removeprefix('OutOf')}", pod.words)
    if word or pod.disruption:
        return Reason.NODE_FAILURE, _with(f"Kubernetes reports `{word or pod.disruption}`", pod.words)
    return _exit_of(pod)


def _exit_of(pod: PodFacts) -> tuple[Reason, str]:
    code = pod.exit_code
    said = f": {pod.output}" if pod.output else ""
    if pod.ended == "ContainerStatusUnknown":
        return Reason.NODE_FAILURE, "its node lost track of the container"
    if code == _UNSEEN and pod.ended in ("Unknown", "Error") and not said:
        return Reason.NODE_FAILURE, "its node was restarted while the container ran"
    if code == SETTLED:
        return Reason.EXIT_CODE, f"the run failed{said}"
    if code == _KILLED:
        return Reason.SIGNAL, "its container was killed; Kubernetes does not say by whom"
    if code in _SHELL_SIGNALS:
        return Reason.SIGNAL, f"its container ended by signal {code - 128 if code else 0}{said}"
    if code is None:
        return Reason.NODE_FAILURE, "its pod failed, and Kubernetes does not say how"
    return Reason.EXIT_CODE, f"its container exited with {code}{said}"


def _memory_words(pod: PodFacts) -> str:
    if pod.memory:
        return f"the container used all of its {_size(pod.memory)} of memory"
    return "the node ran out of memory, and the container has no limit of its own"


def _size(quantity: str) -> str:
    return f"{quantity}B" if quantity[-2:] in ("Ki", "Mi", "Gi", "Ti") else quantity


def _unfinished(facts: JobFacts, now: float, patience: Patience) -> KubeMeaning:
    """The state of a run whose end is not known."""
    if facts.end:
        return KubeMeaning(State.RUNNING, None, "its last pods are ending")
    if facts.is_leaving:
        return KubeMeaning(State.RUNNING if facts.ready else State.QUEUED, None, "its Job is being deleted")
    if facts.is_suspended:
        return _suspended(facts)
    alive = [pod for pod in facts.pods if not pod.is_over and not pod.is_leaving]
    found = [_alive(pod, now, patience) for pod in alive]
    if not any(one.state == State.RUNNING for one in found):
        failed = [pod for pod in facts.pods if pod.is_over and trouble_of(pod.ended)]
        if failed:
            return _not_starting(failed[-1], failed[-1].ended, failed[0].created_at, now, patience)
    if not alive:
        return _without_pods(facts, now) if facts.pods else _without_known_pods(facts)
    return _starting_again(facts, _together(facts, found) or _best(found))


def _starting_again(facts: JobFacts, meaning: KubeMeaning) -> KubeMeaning:
    """The meaning with the reason why an earlier pod was taken away, for a run that does not work yet."""
    taken = [pod for pod in facts.pods if pod.is_over or pod.is_leaving]
    if meaning.state not in (State.QUEUED, State.STARTING) or not taken or taken[-1].phase == "Succeeded":
        return meaning
    last = taken[-1]
    reason, words = _fault_of(last)
    if reason not in (Reason.PREEMPTED, Reason.NODE_FAILURE) or (last.is_leaving and not last.disruption):
        return meaning
    more = f"; {meaning.words}" if meaning.words else ""
    return KubeMeaning(meaning.state, reason, f"{words}, so it starts again{more}")


def _suspended(facts: JobFacts) -> KubeMeaning:
    if facts.queue:
        return KubeMeaning(State.QUEUED, None, f"waits in the queue `{facts.queue}`")
    words = f'its Job is suspended; `kubectl patch job {facts.name} -p \'{{"spec":{{"suspend":false}}}}\'`'
    return KubeMeaning(State.PAUSED, None, f"{words} lets it go on")


def _without_known_pods(facts: JobFacts) -> KubeMeaning:
    """The state by the counts of the Job alone."""
    if facts.ready and facts.ready >= facts.least:
        return KubeMeaning(State.RUNNING)
    if facts.active:
        return KubeMeaning(State.QUEUED)
    if facts.failed:
        return KubeMeaning(
            State.QUEUED, None, "its pods ended or were taken away, and Kubernetes makes new ones"
        )
    return KubeMeaning(State.QUEUED, None, "Kubernetes has made no pod for it yet")


def _without_pods(facts: JobFacts, now: float) -> KubeMeaning:
    """All pods have ended or are given up, and the Job goes on: another pod follows."""
    last = facts.pods[-1]
    if last.phase == "Succeeded":
        return KubeMeaning(
            State.RUNNING, None, "its pods have ended, and Kubernetes has not counted them yet"
        )
    if last.is_taken:
        words = f"{_silent_words(last, now)}, and is given up"
        if facts.keeps_dead:
            words += "; with `recovery: safe`, another pod comes only when the node is back or removed"
        return KubeMeaning(State.QUEUED, Reason.NODE_FAILURE, words)
    if last.is_leaving and not last.disruption:
        return KubeMeaning(State.RUNNING, None, "its pod is being ended")
    reason, words = _fault_of(last)
    return KubeMeaning(State.QUEUED, reason, f"{words}; Kubernetes starts it again")


def _silent_words(pod: PodFacts, now: float) -> str:
    ago = format_duration(now - (pod.silent_since or now), tenths=False)
    return f"its node {pod.node} has not answered for {ago}"


def _alive(pod: PodFacts, now: float, patience: Patience) -> KubeMeaning:
    """The state by one pod that has not ended."""
    if not pod.node:
        return KubeMeaning(State.QUEUED, None, _held_words(pod))
    if pod.silent_since is not None:
        return KubeMeaning(State.RUNNING, None, _silent_words(pod, now))
    if trouble_of(pod.waiting):
        return _not_starting(pod, pod.waiting, pod.created_at, now, patience)
    if pod.waiting:
        if pod.waiting in _CREATING:
            return KubeMeaning(State.STARTING, None, _with(_CREATING[pod.waiting], pod.words))
        return KubeMeaning(State.UNKNOWN, None, _with(f"Kubernetes reports `{pod.waiting}`", pod.words))
    if pod.phase == "Running":
        return KubeMeaning(State.RUNNING)
    if pod.phase == "Pending":
        return KubeMeaning(State.STARTING)
    return KubeMeaning(State.UNKNOWN, None, f"Kubernetes reports the phase `{pod.phase}`")


def _held_words(pod: PodFacts) -> str | None:
    if not pod.held:
        return None
    if pod.held == "Unschedulable":
        return explain_scheduling(pod.words)
    return _with(f"Kubernetes reports `{pod.held}`", pod.words)


def _not_starting(pod: PodFacts, word: str, since: float, now: float, patience: Patience) -> KubeMeaning:
    """A container that cannot be started: the run has failed when it tried for too long."""
    words, trouble = explain_trouble(pod), trouble_of(word, patience)
    limit_s = trouble.limit_s if trouble else patience.start_s
    if now - since < limit_s:
        return KubeMeaning(State.STARTING, None, words)
    tried = f"; tried for {format_duration(now - since, tenths=False)}" if limit_s else ""
    return KubeMeaning(State.FAILED, Reason.SETUP, f"{words}{tried}")


_ORDER = (State.FAILED, State.RUNNING, State.UNKNOWN, State.STARTING, State.QUEUED)


def _together(facts: JobFacts, found: list[KubeMeaning]) -> KubeMeaning | None:
    """The state of a run of several nodes, of which some do not work yet; None in all other cases."""
    working = sum(meaning.state == State.RUNNING for meaning in found)
    working += sum(pod.phase == "Succeeded" for pod in facts.pods)
    if not working or working >= facts.least or any(one.state == State.FAILED for one in found):
        return None
    waits = next((one.words for one in found if one.state != State.RUNNING and one.words), None)
    words = f"{working} of {facts.least} nodes are ready"
    return KubeMeaning(State.STARTING, None, f"{words}; {waits}" if waits else words)


def _best(found: Iterable[KubeMeaning]) -> KubeMeaning:
    return min(found, key=lambda one: (_ORDER.index(one.state), one.words is None))


def _first_start(facts: JobFacts) -> float | None:
    return min((pod.started_at for pod in facts.pods if pod.started_at is not None), default=None)


def _last_end(facts: JobFacts) -> float | None:
    return max((pod.ended_at for pod in facts.pods if pod.ended_at is not None), default=None)


def _with(words: str, more: str) -> str:
    """Our words, and those of Kubernetes behind them."""
    return f"{words} ({more})" if more else words


_REPEATED: Mapping[str, str] = {
    "Taint manager: deleting due to NoExecute taint": "",
    "Eviction API: evicting": "",
    "PodGC: node no longer exists": "",
}


def _beyond(words: str) -> str:
    """The words of Kubernetes, unless they only repeat what ours say."""
    return _REPEATED.get(words, words)
