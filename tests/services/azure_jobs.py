"""Jobs as a client sends them, for tests of the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from home import until

from services.azure import Azure


def body(azure: Azure, command: str, *, compute: str = "cpu-cluster", **more: Any) -> dict[str, Any]:
    """A command job on a compute of the workspace; `more` are further properties."""
    properties = {
        "jobType": "Command",
        "command": command,
        "computeId": f"{azure.workspace}/computes/{compute}",
        "environmentId": f"{azure.workspace}/environments/sklearn-1.5/versions/1",
        **more,
    }
    return {"properties": properties}


def submit(azure: Azure, name: str, command: str, **more: Any) -> dict[str, Any]:
    """The job as the service answered it; AssertionError unless it was taken."""
    status, answer = azure.arm("PUT", f"/jobs/{name}", body(azure, command, **more))
    assert status in (200, 201), answer
    made: dict[str, Any] = answer
    return made


def cluster_body(
    azure: Azure, command: str, *, tier: str = "Basic", kind: str = "ND40_v2g1", nodes: int = 1
) -> Any:
    """A job on the virtual cluster."""
    made = body(azure, command)
    base = azure.workspace.split("/workspaces/")[0]
    words = {"slaTier": tier, "priority": "High", "interactive": False}
    made["properties"]["computeId"] = f"{base}/virtualClusters/sim-vc"
    made["properties"]["resources"] = {
        "instanceType": f"Singularity.{kind}",
        "instanceCount": nodes,
        "properties": {"AISuperComputer": words},
    }
    return made


def wait_for_output(
    azure: Azure, name: str, word: str, *, times: int = 1, file: str = "user_logs/std_log.txt"
) -> None:
    """Waits until the job's log has the word that often; AssertionError when it never has."""

    def has_it() -> bool:
        return file in azure.job(name)["logs"] and azure.log(name, file).count(word) >= times

    until(has_it, f"{name} says {word}")


def alive(pid: int | str) -> bool:
    """A process that ended and that nobody has buried does not live."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
