"""The request body of a job. Pure: the same record and target give the same body.

Each field equals what the official SDK sends for the same job; tests compare the two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from gofer.backends.azureml import names
from gofer.backends.azureml.folders import FolderBinding
from gofer.backends.azureml.names import Workspace
from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.request import AzureRequest
from gofer.core import output_word
from gofer.model.ids import row_id
from gofer.model.run import RunRecord
from gofer.text import quote_command, quote_word

# Added to gofer's own time limit, so that gofer ends the command before the service kills the job: the node
# also needs time to fetch the code before the start and to record the outcome after the end.
_MARGIN_S = 600.0
_MOST_DESCRIPTION = 1000
TAG = "gofer"


class BodyInput(NamedTuple):
    """What a body needs in addition to the record: addresses in the store, and the public key for shells."""

    workspace: Workspace
    options: AzureOptions
    environment: str
    agent: str
    room: str
    folders: tuple[FolderBinding, ...] = ()
    ssh_key: str | None = None


def job_body(
    record: RunRecord, request: AzureRequest, body_input: BodyInput, row: int | None = None
) -> dict[str, Any]:
    """The body for a run, or for one row of an array."""
    inputs = {
        "gofer_agent": {"uri": body_input.agent, "mode": "Download", "jobInputType": "uri_file"},
        "gofer_run": {"uri": body_input.room, "mode": "Download", "jobInputType": "uri_folder"},
    }
    inputs |= {folder.port: folder.body for folder in body_input.folders if not folder.is_output}
    # Shown in the portal, with the placeholders for outputs instead of paths on the node.
    command = _command_of(record, row)
    properties: dict[str, Any] = {
        "jobType": "Command",
        "displayName": record.name if row is None else f"{record.name}-{row}",
        "description": quote_command(command)[:_MOST_DESCRIPTION],
        "experimentName": experiment(record, body_input.options),
        "command": visible_command(body_input, row),
        "environmentId": body_input.environment,
        "computeId": compute_id(body_input.workspace, body_input.options),
        "environmentVariables": _environment(request, body_input.options),
        "inputs": inputs,
        "outputs": {folder.port: folder.body for folder in body_input.folders if folder.is_output},
        "resources": _resources(request, body_input),
        "tags": {**request.tags, TAG: record.gofer},
        "properties": _git(record),
        # The SDK always sends this field, and tests compare the body with the SDK's.
        "isArchived": False,
    }
    return {"properties": properties | _when_needed(request, body_input)}


def job_name(record: RunRecord, row: int | None) -> str:
    """The name of the job on the service: the id of the run."""
    return record.id if row is None else row_id(record.id, row)


def visible_command(body_input: BodyInput, row: int | None) -> str:
    """The command line that the service runs and the portal shows: it starts the agent.

    The user's command is not part of it: the agent reads the command from the handoff folder.
    """
    words = [
        quote_word(body_input.options.python),
        "-E",
        "-s",
        "${{inputs.gofer_agent}}",
        "${{inputs.gofer_run}}",
    ]
    words += [] if row is None else ["--row", str(row)]
    for folder in body_input.folders:
        kind = "outputs" if folder.is_output else "inputs"
        words.append(f"{quote_word(folder.name)}=${{{{{kind}.{folder.port}}}}}")
    return " ".join(words)


def compute_id(workspace: Workspace, options: AzureOptions) -> str:
    if options.platform == "singularity":
        return workspace.virtual_cluster(options.virtual_cluster or "")
    return workspace.compute(options.compute or "")


def experiment(record: RunRecord, options: AzureOptions) -> str:
    """The experiment of the run, without characters that the service refuses."""
    wanted = options.experiment or record.submitted_by.partition("@")[0]
    # The service refuses other characters and names of more than 255 letters.
    return re.sub(r"[^A-Za-z0-9_-]+", "-", wanted).strip("-_")[:255] or "gofer"


def duration(seconds: float) -> str:
    """The ISO 8601 form, rounded up to a whole second."""
    left = math.ceil(seconds)
    days, left = divmod(left, 86400)
    hours, left = divmod(left, 3600)
    minutes, rest = divmod(left, 60)
    clock = "".join(f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M"), (rest, "S")) if count)
    text = (f"{days}D" if days else "") + (f"T{clock}" if clock else "")
    return f"P{text or 'T0S'}"


def _git(record: RunRecord) -> dict[str, str]:
    """The git commit of the code, under the names that the official SDK uses and the portal shows."""
    code = record.code
    if code is None or code.commit is None:
        return {}
    branch = {"mlflow.source.git.branch": code.branch} if code.branch else {}
    return {**branch, "mlflow.source.git.commit": code.commit, "azureml.git.dirty": str(bool(code.dirty))}


def _command_of(record: RunRecord, row: int | None) -> list[str]:
    array = record.array
    values = {} if array is None or row is None else dict(zip(array.columns, array.rows[row], strict=True))
    return output_word.show(record.job.command, values)


def _environment(request: AzureRequest, options: AzureOptions) -> dict[str, str]:
    """The job's variables.

    Singularity reads a user-assigned identity from a variable, not from `identity`.
    """
    identity = options.identity or ""
    if options.platform == "singularity" and identity.startswith("/"):
        return {**request.env, "_AZUREML_SINGULARITY_JOB_UAI": identity}
    return dict(request.env)


def _resources(request: AzureRequest, body_input: BodyInput) -> dict[str, Any]:
    options = body_input.options
    found: dict[str, Any] = {"instanceCount": request.layout.nodes, "properties": {}}
    if options.instance_type:
        prefix = "Singularity." if options.platform == "singularity" else ""
        found["instanceType"] = prefix + options.instance_type.removeprefix(prefix)
    if options.shm_size:
        found["shmSize"] = options.shm_size
    if options.docker_args:
        found["dockerArgs"] = options.docker_args
    if options.platform == "singularity":
        found["properties"] = {"AISuperComputer": _supercomputer(body_input)}
        if options.locations:
            found["locations"] = list(options.locations)
    elif options.preemptible:
        found["properties"] = {"preemptionAllowed": True}
    return found


def _supercomputer(body_input: BodyInput) -> dict[str, Any]:
    options = body_input.options
    fields = {
        "interactive": options.interactive,
        "slaTier": options.tier.capitalize(),
        "priority": (options.priority or "high").capitalize(),
        "imageVersion": options.image_version,
        "sshPublicKey": body_input.ssh_key if options.interactive else None,
        "enableAzmlInt": options.enable_azml_int,
        "locations": list(options.locations) or None,
        "scalePolicy": None
        if options.scale is None
        else {
            "autoScaleIntervalInSec": options.scale.interval_s,
            "maxInstanceTypeCount": options.scale.max,
            "minInstanceTypeCount": options.scale.min,
        },
    }
    return {name: value for name, value in fields.items() if value is not None}


def _when_needed(request: AzureRequest, body_input: BodyInput) -> dict[str, Any]:
    found: dict[str, Any] = {}
    # The service starts one process on each node of a PyTorch job, and gofer's agent starts the ranks.
    if request.launcher == "mpi":
        procs = request.layout.procs_per_node
        found["distribution"] = {"distributionType": "Mpi", "processCountPerInstance": procs}
    elif request.layout.nodes > 1:
        found["distribution"] = {"distributionType": "PyTorch", "processCountPerInstance": 1}
    if request.time_limit_s is not None:
        attempt_s = request.time_limit_s + request.grace_s
        total_s = attempt_s * (request.retries + 1) + _MARGIN_S
        found["limits"] = {"jobLimitsType": "Command", "timeout": duration(total_s)}
    if body_input.options.identity:
        found["identity"] = _identity(body_input.options.identity)
    if body_input.options.interactive and body_input.options.platform != "singularity" and body_input.ssh_key:
        found["services"] = {
            "ssh": {
                "jobServiceType": "SSH",
                "nodes": {"nodesValueType": "All"},
                "properties": {"sshPublicKeys": body_input.ssh_key},
            }
        }
    return found


def _identity(word: str) -> Mapping[str, str]:
    if word == "user":
        return {"identityType": "UserIdentity"}
    if word == "managed":
        return {"identityType": "Managed"}
    kind = "resourceId" if word.startswith("/") else "clientId"
    return {"identityType": "Managed", kind: word}


def room_uri(datastore: str, prefix: str, request_id: str) -> str:
    return names.uri(datastore, prefix, names.room_key(request_id))
