"""Translates the service's job states into gofer's. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from gofer.core.states import Reason, State


class AzureStateMeaning(NamedTuple):
    """`words` explain the service's state where gofer's state says less."""

    state: State
    reason: Reason | None = None
    words: str | None = None


# Every JobStatus of the REST reference.
_MEANINGS = {
    "NotStarted": AzureStateMeaning(State.QUEUED),
    "Queued": AzureStateMeaning(State.QUEUED),
    "Scheduled": AzureStateMeaning(State.QUEUED),
    "Starting": AzureStateMeaning(State.STARTING),
    "Provisioning": AzureStateMeaning(State.STARTING, None, "its nodes are being created"),
    "Preparing": AzureStateMeaning(State.STARTING, None, "its environment is being prepared"),
    "Running": AzureStateMeaning(State.RUNNING),
    "Finalizing": AzureStateMeaning(State.RUNNING, None, "its outputs are being written"),
    "CancelRequested": AzureStateMeaning(State.RUNNING, None, "the service is stopping it"),
    "Paused": AzureStateMeaning(State.PAUSED, None, "paused by the service until nodes are free"),
    "Completed": AzureStateMeaning(State.SUCCEEDED),
    "Failed": AzureStateMeaning(State.FAILED, Reason.EXIT_CODE),
    "Canceled": AzureStateMeaning(State.CANCELLED, Reason.USER, "cancelled on the service"),
    "NotResponding": AzureStateMeaning(State.UNKNOWN, None, "the service has no contact with its nodes"),
    "Unknown": AzureStateMeaning(State.UNKNOWN, None, "the service does not know the state"),
}
KUBERNETES_STATUS = "amlk8s status"


def meaning_of(status: str, tags: Mapping[str, str] | None = None) -> AzureStateMeaning:
    """The meaning of a status. For Kubernetes jobs the tag is more accurate; an unknown word is `unknown`."""
    cluster_word = (tags or {}).get(KUBERNETES_STATUS, "").strip().lower()
    if cluster_word == "running" and status == "Queued":
        return _MEANINGS["Running"]
    if cluster_word in ("killing", "failed") and status == "Canceled":
        return AzureStateMeaning(
            State.FAILED, Reason.NODE_FAILURE, f"ended by the cluster, which reports `{cluster_word}`"
        )
    return _MEANINGS.get(status) or AzureStateMeaning(State.UNKNOWN, None, f"the service reports `{status}`")


def statuses_of(states: Collection[State]) -> tuple[str, ...]:
    """The statuses of the service that can mean one of these states; empty when a state has no certain
    status.

    One status can mean several states: Kubernetes reports the rest in a tag, and a time limit shows as
    Canceled.
    """
    also = {"Queued": State.RUNNING, "Canceled": State.FAILED}
    found = {
        state: [word for word, meaning in _MEANINGS.items() if meaning.state == state] for state in states
    }
    if State.UNKNOWN in states or not all(found.values()):
        return ()
    return tuple(
        word for word, meaning in _MEANINGS.items() if meaning.state in states or also.get(word) in states
    )


_EXIT = re.compile(
    r"(?:exit(?:ed)?(?:[ _-]?(?:status|code))?|non-?zero[^.]{0,40}?code|code|status)\D{0,12}?(-?\d+)", re.I
)

# Patterns for error codes and messages, the most specific first.
_REASONS: tuple[tuple[str, Reason], ...] = (
    (r"out[ -]?of[ -]?memory|OOMKilled|\bOOM\b", Reason.OUT_OF_MEMORY),
    (r"preempt|evict", Reason.PREEMPTED),
    (
        r"ImagePull|ImageBuild|EnvironmentBuild|environment.{0,30}(build|image)|docker.{0,20}pull",
        Reason.STAGING,
    ),
    (
        r"AuthorizationFailed|Authentication|credential|\bSAS\b|permission|Forbidden|Unauthorized",
        Reason.CREDENTIAL,
    ),
    (r"DataAccess|DatastoreNotFound|mount|StreamAccess|download.{0,20}fail", Reason.STAGING),
    (r"quota|ValidationError|InvalidRequest|BadArgument|InvalidArgument|NotAllowed", Reason.REJECTED),
    (r"time[ -]?(d[ -]?)?out|MaxRunDuration|exceeded.{0,30}(duration|time)", Reason.TIME_LIMIT),
    (r"NodeFail|node.{0,30}(fail|lost|unusable|unhealthy|down)|NotResponding|HostFail", Reason.NODE_FAILURE),
)


def reason_of(code: str, message: str) -> tuple[Reason, int | None]:
    """The reason of a failure and, where the message has it, the exit code of the command."""
    if code in ("JobExecutionError", "UserScriptException", "CommandFailed") or "exited with" in message:
        found = _EXIT.search(message)
        if found and not re.search(r"out[ -]?of[ -]?memory|OOMKilled", message, re.I):
            return Reason.EXIT_CODE, int(found[1])
    text = f"{code} {message}"
    for pattern, reason in _REASONS:
        if re.search(pattern, text, re.I):
            return reason, None
    found = _EXIT.search(message)
    return Reason.EXIT_CODE, int(found[1]) if found else None
