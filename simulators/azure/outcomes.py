"""How the service says what became of a job: the errors of its run history. Pure."""

from __future__ import annotations

from simulators.azure.messages import Json
from simulators.azure.node_processes import Started


def error(code: str, message: str, inner: str) -> Json:
    """As the run history keeps it."""
    return {
        "code": code,
        "message": message,
        "messageParameters": {},
        "details": [],
        "innerError": {"code": inner, "innerError": None},
    }


def judged(processes: list[Started]) -> tuple[str, Json | None]:
    """The status and the error, from the exit codes."""
    bad = [one for one in processes if one.child.returncode]
    if not bad:
        return "Completed", None
    # A process that failed by itself explains more than those that were stopped.
    first = next((one for one in bad if one.child.returncode > 0), bad[0])
    code = first.child.returncode
    shown = code if code > 0 else 128 - code
    message = (
        f"Execution failed. Process 'worker {first.process.rank}' exited with code {shown} and error message "
        f"'Execution failed. Process exited with status code {shown}.'. "
        f"Please check the log file '{first.log}' for error details."
    )
    return "Failed", error("UserError", message, "JobExecutionError")


def wished(wish: str, limit: str) -> tuple[str, Json | None]:
    """The status and the error of a job that the service itself ended."""
    if wish == "timeout":
        message = f"The job was cancelled since it exceeded its maximum run duration of {limit}."
        return "Canceled", error("UserError", message, "MaxRunDurationExceeded")
    if wish == "fail-node":
        return "Failed", error("ServiceError", "The node running the job became unusable.", "NodeFailure")
    return "Canceled", None
