"""Jobs as another tool left them in the workspace: shown with their logs, and never run here."""

from __future__ import annotations

import json

from simulators.azure.attempt import SimulatedAttemptContext
from simulators.azure.jobs import ENDED, SimulatedJob
from simulators.azure.messages import Json, not_found
from simulators.azure.resources import WorkspaceSpec, workspace_id


def leave(setting: SimulatedAttemptContext, body: Json, now: float) -> SimulatedJob:
    """By `name`, `experiment`, `command`, `status`, `logs` {file name: text}, `tags`, `run_definition` …"""
    workspace = str(body.get("workspace") or workspace_id(*WorkspaceSpec()[:3]))
    if setting.documents.get("workspace", workspace) is None:
        raise not_found("workspace", workspace)
    created = float(body.get("created", now))
    path = f"{workspace}/jobs/{body['name']}"
    job = SimulatedJob(
        path, body["name"], workspace, _properties(body, workspace), created, setting.jobs.next_seq()
    )
    job.left, job.status = True, str(body.get("status", "Completed"))
    job.started = float(body.get("started", created + 10)) if job.status != "Queued" else None
    job.ended = float(body.get("ended", created + 70)) if job.status in ENDED else None
    job.tags, job.notes = dict(body.get("tags", {})), dict(body.get("properties", {}))
    if body.get("run_definition"):
        job.notes["sim.run-definition"] = json.dumps(body["run_definition"])
    job.error, job.created_by = body.get("error"), str(body.get("created_by", job.created_by))
    _write_logs(setting, job, body.get("logs") or {})
    setting.jobs.add(job)
    return job


def _properties(body: Json, workspace: str) -> Json:
    return {
        "jobType": "Command",
        "command": body.get("command", "true"),
        "experimentName": body.get("experiment", "Default"),
        "displayName": body.get("display_name"),
        "computeId": body.get("compute_id") or f"{workspace}/computes/{body.get('compute', 'gpu-cluster')}",
        "environmentId": body.get("environment_id") or f"{workspace}/environments/sklearn-1.5/versions/1",
        "distribution": body.get("distribution"),
        "resources": {"instanceCount": int(body.get("nodes", 1))},
        **body.get("more", {}),
    }


def _write_logs(setting: SimulatedAttemptContext, job: SimulatedJob, logs: Json) -> None:
    if not logs:
        return
    store = setting.documents.get("datastore", f"{job.workspace}/datastores/workspaceartifactstore")
    assert store is not None
    place = store["properties"]
    container = setting.storage.own(place["accountName"], place["containerName"])
    for name, text in logs.items():
        container.start_append(f"{job.folder}/{name}")
        container.append(f"{job.folder}/{name}", str(text).encode())
        job.logs.append(name)
    container.close()
