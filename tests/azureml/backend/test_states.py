"""The service's words, in gofer's."""

from __future__ import annotations

from typing import Any

import pytest

from gofer.backends.azureml.status import AzureStatus, error_of, from_job, meaning_of, reason_of, stamp, trim
from gofer.backends.base import RunRef
from gofer.backends.polling import ClusterAnswer
from gofer.backends.run_notes import RunNote
from gofer.core.states import Reason, State

RUN = "r261116-091233-k9qd4x"


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("NotStarted", State.QUEUED),
        ("Queued", State.QUEUED),
        ("Scheduled", State.QUEUED),
        ("Starting", State.STARTING),
        ("Provisioning", State.STARTING),
        ("Preparing", State.STARTING),
        ("Running", State.RUNNING),
        ("Finalizing", State.RUNNING),
        ("CancelRequested", State.RUNNING),
        ("Paused", State.PAUSED),
        ("Completed", State.SUCCEEDED),
        ("Failed", State.FAILED),
        ("Canceled", State.CANCELLED),
        ("NotResponding", State.UNKNOWN),
        ("Unknown", State.UNKNOWN),
        ("Hibernating", State.UNKNOWN),
    ],
)
def test_statuses(status: str, state: State) -> None:
    assert meaning_of(status).state == state


def test_every_status_of_the_official_model_has_a_meaning() -> None:
    from azure.ai.ml._restclient.arm_ml_service.models import JobStatus

    strange = [one.value for one in JobStatus if f"`{one.value}`" in (meaning_of(one.value).words or "")]
    assert strange == []


def test_kubernetes_says_it_in_a_tag() -> None:
    assert meaning_of("Queued", {"amlk8s status": "running"}).state == State.RUNNING
    assert meaning_of("Queued", {"amlk8s status": "queued"}).state == State.QUEUED
    for word in ("killing", "failed"):
        assert meaning_of("Canceled", {"amlk8s status": word}).state == State.FAILED
    assert meaning_of("Canceled", {}).state == State.CANCELLED


@pytest.mark.parametrize(
    ("code", "message", "reason", "exit_code"),
    [
        (
            "JobExecutionError",
            "Execution failed. Process 'worker 0' exited with code 3 and error",
            Reason.EXIT_CODE,
            3,
        ),
        (
            "JobExecutionError",
            "exited with code 137 and error message 'OOMKilled'",
            Reason.OUT_OF_MEMORY,
            None,
        ),
        ("ImagePullFailure", "docker pull failed", Reason.STAGING, None),
        ("EnvironmentBuildFailed", "the image build failed", Reason.STAGING, None),
        ("QuotaExceeded", "not enough quota", Reason.REJECTED, None),
        ("ValidationError", "x", Reason.REJECTED, None),
        ("AuthorizationFailed", "does not have authorization", Reason.CREDENTIAL, None),
        ("ScriptExecution.StreamAccess.PermissionDenied", "SAS", Reason.CREDENTIAL, None),
        ("ScriptExecution.StreamAccess.NotFound", "no such path", Reason.STAGING, None),
        ("MaxRunDurationExceeded", "too long", Reason.TIME_LIMIT, None),
        ("JobTimeout", "timed out", Reason.TIME_LIMIT, None),
        ("NodeFailure", "The node running the job became unusable.", Reason.NODE_FAILURE, None),
        ("Preempted", "the job was preempted", Reason.PREEMPTED, None),
        ("", "", Reason.EXIT_CODE, None),
    ],
)
def test_reasons(code: str, message: str, reason: Reason, exit_code: int | None) -> None:
    assert reason_of(code, message) == (reason, exit_code)


def job(status: str, **more: Any) -> dict[str, Any]:
    times = {"StartTimeUtc": "2024-03-01 12:00:05", "EndTimeUtc": "2024-03-01 12:01:05"}
    return {"name": RUN, "properties": {"status": status, "properties": times, **more}}


def test_a_running_job_has_started_and_not_ended() -> None:
    seen = from_job(RUN, trim(job("Running")))
    assert (seen.state, seen.started_at, seen.ended_at) == (State.RUNNING, 1709294405.0, None)
    seen = from_job(RUN, trim(job("Queued")))
    assert (seen.state, seen.started_at) == (State.QUEUED, None)


def test_what_is_kept_of_a_job_is_nothing_that_it_was_given() -> None:
    kept = trim(job("Running", command="x", environmentVariables={"A": "dummy-secret"}, tags={"team": "x"}))
    assert "dummy-secret" not in str(kept) and kept["tags"] == {}


def test_an_error_is_shown_with_its_innermost_code() -> None:
    message = {
        "error": {
            "error": {
                "code": "UserError",
                "message": "Execution failed.\nProcess 'worker 0' exited with code 3.",
                "innerError": {
                    "code": "UserTrainingScriptFailed",
                    "innerError": {"code": "JobExecutionError"},
                },
            }
        }
    }
    error = error_of(message)
    assert error == {
        "code": "JobExecutionError",
        "message": "Execution failed. Process 'worker 0' exited with code 3",
    }
    seen = from_job(RUN, {**trim(job("Failed")), "error": error})
    assert (seen.reason, seen.exit_code) == (Reason.EXIT_CODE, 3)
    assert seen.detail == "Execution failed. Process 'worker 0' exited with code 3 (JobExecutionError)"


def test_a_time_limit_of_the_service_is_no_cancel() -> None:
    error = {"code": "MaxRunDurationExceeded", "message": "it ran longer than allowed"}
    seen = from_job(RUN, {**trim(job("Canceled")), "error": error})
    assert (seen.state, seen.reason) == (State.FAILED, Reason.TIME_LIMIT)
    seen = from_job(RUN, trim(job("Canceled")))
    assert (seen.state, seen.reason) == (State.CANCELLED, Reason.USER)


def reading(note: RunNote | None, *, missing_s: float = 0.0) -> Any:
    result = ClusterAnswer(gone={RUN: {"rows": [None]}}, missing={RUN: 1000.0 - missing_s})
    return AzureStatus(result, {RUN: note}, patience_s=600.0, now=1000.0).of([RunRef(RUN)]).get(RUN)


def test_a_run_that_the_service_does_not_have() -> None:
    assert reading(None) is None
    assert reading(RunNote()) is None
    refused = reading(RunNote(rejected="no such compute"))
    assert (refused.state, refused.reason, refused.detail) == (
        State.FAILED,
        Reason.REJECTED,
        "no such compute",
    )
    assert reading(RunNote(is_sent=True)).state == State.UNKNOWN
    lost = reading(RunNote(is_sent=True), missing_s=601.0)
    assert (lost.state, lost.reason) == (State.LOST, Reason.NODE_FAILURE)


def test_a_run_of_an_unreachable_service_is_left_out() -> None:
    found = AzureStatus(ClusterAnswer(), {RUN: RunNote(is_sent=True)}, patience_s=1.0, now=1000.0).of(
        [RunRef(RUN)]
    )
    assert found == {}


@pytest.mark.parametrize(
    "text", ["2024-03-01 12:00:05", "2024-03-01T12:00:05Z", "2024-03-01T12:00:05.0000000+00:00"]
)
def test_times(text: str) -> None:
    assert stamp(text) == 1709294405.0


def test_no_time() -> None:
    assert stamp(None) is None and stamp("soon") is None
