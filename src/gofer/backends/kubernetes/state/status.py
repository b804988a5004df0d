"""The states of runs: one question to the cluster about all Jobs of gofer in a namespace, and the answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gofer.backends.base import RunRef
from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.state import job_facts, states
from gofer.backends.kubernetes.state.job_facts import JobFacts
from gofer.backends.kubernetes.state.start_troubles import Patience
from gofer.backends.polling import ClusterAnswer, Rows
from gofer.backends.run_notes import RunNote
from gofer.backends.scheduled import forgotten
from gofer.core.states import Reason, State
from gofer.model.run import Observation
from gofer.transport.kubernetes.client import KubeClient

_SETTLED = ("Complete", "Failed")
# What a Job says before its last pods have ended, and what it says then.
_ENDS = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
# How a Job ends that was stopped: its deadline is set into the past.
_STOPPED = "DeadlineExceeded"


class KubeJobQuestion:
    """Lists the Jobs of gofer in one namespace, and the pods of those that are not over."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def __call__(self, runs: Mapping[str, Rows]) -> dict[str, Any]:
        """The answer for gofer.backends.polling: all Jobs, and the wanted names that have no Job."""
        jobs = list(self._client.list_all(names.jobs_path(self._namespace), names.OWN_JOBS))
        unsettled = any(needs_pods(job, job["metadata"]["name"] in runs) for job in jobs)
        pods: dict[str, list[dict[str, Any]]] = {}
        if unsettled:
            for pod in self._client.list_all(names.core_path(self._namespace, "pods"), names.OWN_JOBS):
                owner = (pod["metadata"].get("labels") or {}).get(names.JOB_NAME_LABEL, "")
                pods.setdefault(owner, []).append(pod)
        found = [encode(job, pods.get(job["metadata"]["name"], [])) for job in jobs]
        present = {one["name"] for one in found}
        gone = {name: {"rows": [None]} for name in runs if name not in present}
        return {"jobs": found, "gone": gone, "ends": {}}


def encode(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What gofer keeps of a Job between commands."""
    status, meta = job.get("status") or {}, job["metadata"]
    kept = job_facts.encode(job_facts.read_job(job, pods))
    done, bad = str(status.get("completedIndexes") or ""), str(status.get("failedIndexes") or "")
    notes = meta.get("annotations") or {}
    nodes = str(notes.get(names.NODES_NOTE) or "1")
    more = {"done": done, "bad": bad, "stopped_at": notes.get(names.STOP_NOTE), "nodes": nodes}
    return {**kept, **more, "state": f"{kept['state']} {done} {bad} {more['stopped_at']}"}


def parse_indexes(text: str) -> set[int]:
    """The numbers in `1,3-5,7`, as Kubernetes writes the indexes of a Job."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal():
            found.update(range(int(first), int(last if last.isdecimal() else first) + 1))
    return found


class KubernetesStatus:
    """One answer of the cluster. `notes` are those of the requests that this machine sent, by request id."""

    def __init__(
        self,
        answer: ClusterAnswer,
        notes: Mapping[str, RunNote | None],
        *,
        patience: Patience,
        patience_s: float,
    ) -> None:
        self._jobs = {str(job["name"]): job for job in answer.jobs}
        self._answer = answer
        self._notes = notes
        self._patience = patience
        self._patience_s = patience_s
        self._now = time.time()
        self._indexes: dict[str, tuple[set[int], set[int]]] = {}

    def of(self, runs: Sequence[RunRef]) -> dict[str, Observation]:
        """The observations of the runs. Runs that were never sent are left out."""
        found = ((run.id, self._of(run)) for run in runs)
        return {run_id: entry for run_id, entry in found if entry is not None}

    def facts(self, name: str) -> JobFacts | None:
        """The Job of that name; None when the cluster does not have it."""
        kept = self._jobs.get(name)
        return None if kept is None else _without_lost_pods(job_facts.decode(kept))

    def _of(self, run: RunRef) -> Observation | None:
        name = names.job_name(run)
        facts = self.facts(name)
        if facts is None:
            return self._from_note(run, name)
        kept = self._jobs[name]
        if run.row is not None:
            facts = self._of_row(facts, kept, run.row)
        found = states.observe(run.id, facts, now=self._now, patience=self._patience)
        if found.state == State.RUNNING and found.started_at is None and not facts.pods:
            # Where all pods are ready they are not listed, and the start of the Job is what is known.
            found = msgspec.structs.replace(found, started_at=facts.started_at)
        is_stopped = facts.is_suspended or (facts.is_over and facts.end_reason == _STOPPED)
        if kept["stopped_at"] is not None and found.state != State.SUCCEEDED and is_stopped:
            return _stopped(run.id, found)
        return found

    def _of_row(self, facts: JobFacts, kept: Mapping[str, Any], row: int) -> JobFacts:
        """The facts of one row, as if the row had a Job of its own."""
        nodes = int(kept["nodes"])
        own = set(range(row * nodes, (row + 1) * nodes))
        done, bad = self._indexes.setdefault(
            facts.name, (parse_indexes(kept["done"]), parse_indexes(kept["bad"]))
        )
        pods = tuple(pod for pod in facts.pods if pod.index in own)
        end, reason = "", facts.end_reason
        if own & bad:
            end, reason = "Failed", "PodFailurePolicy"
        elif own <= done:
            end = "Complete"
        elif facts.is_over:
            end = "Failed"
        return msgspec.structs.replace(
            facts,
            wanted=nodes,
            least=nodes,
            active=sum(not pod.is_over for pod in pods),
            # The counts of the Job are those of all its rows.
            ready=0,
            succeeded=0,
            failed=0,
            end=end,
            end_reason=reason,
            pods=pods,
        )

    def _from_note(self, run: RunRef, name: str) -> Observation | None:
        """What is known of a run that the cluster does not have."""
        note = self._notes.get(name)
        if note is None or name not in self._answer.gone:
            return None
        if note.rejected:
            return Observation(
                run_id=run.id,
                state=State.FAILED,
                reason=Reason.REJECTED,
                detail=note.rejected,
                ended_at=note.at,
            )
        if not note.is_sent:
            return None
        words = "the cluster no longer has its Job, and no pod recorded an outcome"
        for_s = self._now - self._answer.missing.get(name, self._now)
        return forgotten(run.id, words, for_s=for_s, patience_s=self._patience_s, now=self._now)


def _without_lost_pods(facts: JobFacts) -> JobFacts:
    """The facts of a Job that only waits for pods on nodes that do not answer, without these pods: Kubernetes
    waits as long as the nodes exist.
    """
    end = _ENDS.get(facts.end)
    if end is None or any(not pod.is_over and not pod.is_taken for pod in facts.pods):
        return facts
    pods = tuple(pod for pod in facts.pods if not pod.is_taken)
    return msgspec.structs.replace(facts, end=end, pods=pods)


def _stopped(run_id: str, found: Observation) -> Observation:
    return Observation(
        run_id=run_id,
        state=State.CANCELLED,
        reason=Reason.USER,
        detail="stopped on request",
        started_at=found.started_at,
        ended_at=found.ended_at,
    )


def _is_settled(job: Mapping[str, Any]) -> bool:
    return any(_has_condition(job, word) for word in _SETTLED)


def needs_pods(job: Mapping[str, Any], is_wanted: bool) -> bool:
    """Whether only the pods of the Job say how its run stands. Not where every pod is ready, nor after an end
    that nobody asks about: the pods of a failed Job say why it failed.
    """
    if _is_settled(job):
        return is_wanted and _has_condition(job, "Failed")
    spec, status = job["spec"], job.get("status") or {}
    nodes = str((job["metadata"].get("annotations") or {}).get(names.NODES_NOTE) or "")
    is_single = str(spec.get("completions")) == nodes  # the rows of an array are told apart by their pods
    is_steady = status.get("ready") == status.get("active") == spec.get("parallelism")
    return not (is_single and is_steady and not spec.get("suspend"))


def _has_condition(job: Mapping[str, Any], word: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == word and one.get("status") == "True" for one in conditions)
