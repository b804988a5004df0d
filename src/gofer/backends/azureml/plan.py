"""The plan of a run on Azure ML: the request that the nodes get, and the request body of each job. Pure.

The same record and target give the same plan. Each field of a body equals what the official SDK sends for
the same job; tests compare the two.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from gofer.backends.azureml import names
from gofer.backends.azureml.names import JOBS_API, Workspace
from gofer.backends.azureml.options import AzureOptions
from gofer.backends.kind import BlobPlace
from gofer.backends.node_request import CommonRequest, common_fields
from gofer.core import folder_modes
from gofer.core.command import output_word
from gofer.model.ids import row_id
from gofer.model.job import JobFolder
from gofer.model.run import RunRecord
from gofer.text import quote_command, quote_word

# How the service brings a folder. A folder that is only read becomes an input of the job; a folder that is
# written becomes an output.
_MODES = {folder_modes.MOUNT: "ReadWriteMount", folder_modes.COPY: "Download", folder_modes.UPLOAD: "Upload"}


class AzureRequest(CommonRequest, frozen=True, kw_only=True):
    """Row i of an array has the values `rows[i]` of `columns`; a single run has no rows.

    `store`, a folder that the nodes can see, is always None: the uploader of the nodes writes to the store.
    """

    store: str | None = None
    scratch: str | None = None
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_request(record: RunRecord, options: AzureOptions) -> AzureRequest:
    """Make the request. Pure: equal for equal records and targets."""
    array = record.array
    common = common_fields(record, takes_nodes_back=takes_nodes_back(options))
    return AzureRequest(
        **{**common, "time_limit_s": limit_s(record, options)},
        columns=() if array is None else array.columns,
        rows=() if array is None else array.rows,
    )


def limit_s(record: RunRecord, options: AzureOptions) -> float | None:
    """The time limit of the job, or else that of the target."""
    return record.job.time_limit_s if record.job.time_limit_s is not None else options.time


def takes_nodes_back(options: AzureOptions) -> bool:
    """Whether the cluster may take nodes from a running job, according to the target's options.

    A low-priority compute can lose its nodes too, but the options do not say whether a compute is one.
    """
    if options.platform == "singularity":
        return options.tier != "premium"
    return bool(options.preemptible)


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
    handoff: str
    folders: tuple[FolderBinding, ...] = ()
    ssh_key: str | None = None


def job_body(
    record: RunRecord, request: AzureRequest, body_input: BodyInput, row: int | None = None
) -> dict[str, Any]:
    """The body for a run, or for one row of an array."""
    inputs = {
        "gofer_agent": {"uri": body_input.agent, "mode": "Download", "jobInputType": "uri_file"},
        "gofer_run": {"uri": body_input.handoff, "mode": "Download", "jobInputType": "uri_folder"},
    }
    inputs |= {folder.port: folder.body for folder in body_input.folders if not folder.is_output}
    # Shown in the portal, with the placeholders for outputs instead of paths on the node.
    command = _command_of(record, row)
    properties: dict[str, object] = {
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


def _resources(request: AzureRequest, body_input: BodyInput) -> dict[str, object]:
    options = body_input.options
    found: dict[str, object] = {"instanceCount": request.layout.nodes, "properties": {}}
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


def _supercomputer(body_input: BodyInput) -> dict[str, object]:
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


def _when_needed(request: AzureRequest, body_input: BodyInput) -> dict[str, object]:
    found: dict[str, object] = {}
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


def handoff_uri(datastore: str, prefix: str, request_id: str) -> str:
    return names.uri(datastore, prefix, names.handoff_key(request_id))


class AzurePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is sent to the service, except the secrets. Pure data."""

    record: RunRecord
    request: AzureRequest
    body_input: BodyInput
    image: str | None

    @property
    def rows(self) -> list[int | None]:
        """The rows of an array; for a single run, one None."""
        return [*range(len(self.request.rows))] if self.record.array else [None]

    def name(self, row: int | None) -> str:
        return job_name(self.record, row)

    def body(self, row: int | None) -> dict[str, Any]:
        return job_body(self.record, self.request, self.body_input, row)

    def render(self) -> str:
        """The job request as it is sent; for an array, the request of the first row."""
        first = self.rows[0] if self.rows else None
        path = self.body_input.workspace.job(self.name(first))
        text = json.dumps(self.body(first), indent=2, ensure_ascii=False)
        command = quote_command(self.request.command).replace("\n", "\\n")
        lines = [f"PUT {path}?api-version={JOBS_API}", text, ""]
        more = len(self.rows) - 1
        if more:
            rows = "row" if more == 1 else "rows"
            lines.append(f"# and {more} more for the other {rows}, up to {self.name(self.rows[-1])}")
        return "\n".join([*lines, f"# runs on each rank: {command}", ""])


class FolderBinding(NamedTuple):
    """One folder. `port` names its input or output in the job; `datastore` is where the folder is stored."""

    name: str
    port: str
    is_output: bool
    body: dict[str, str]
    datastore: str
    place: BlobPlace


def folders_of_run(record: RunRecord) -> dict[str, JobFolder]:
    """The job's folders, with `{run}` in their paths replaced by the id of the run or of the whole array."""
    return {
        name: msgspec.structs.replace(folder, path=folder_modes.path_of_run(folder.path, record.id))
        for name, folder in record.job.folders.items()
    }


def service_folders(
    folders: Mapping[str, JobFolder],
    place_of: Callable[[str], BlobPlace | None],
    datastore_of: Callable[[BlobPlace, bool], str],
) -> tuple[FolderBinding, ...]:
    """The folders that are in Azure Blob Storage, in the given order. The agent brings the others."""
    found: list[FolderBinding] = []
    for at, (name, folder) in enumerate(folders.items()):
        place = place_of(folder.store)
        # Other modes, folders in other stores, and the working copy, are left to the agent.
        if place is not None and folder.mode in _MODES and name != folder_modes.WORKING_COPY:
            port = f"folder_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
            # Two names may differ only in characters that a port cannot have.
            taken = any(binding.port == port for binding in found)
            found.append(
                _service_folder(name, f"{port}_{at}" if taken else port, folder, place, datastore_of)
            )
    return tuple(found)


def _service_folder(
    name: str, port: str, folder: JobFolder, place: BlobPlace, datastore_of: Callable[[BlobPlace, bool], str]
) -> FolderBinding:
    mode = _MODES[folder.mode]
    if folder.mode == folder_modes.MOUNT and folder.read_only:
        mode = "ReadOnlyMount"
    is_output = mode in ("ReadWriteMount", "Upload")
    if place.scope:  # the credential opens one folder each, so each folder needs its own datastore
        place = place._replace(scope="/" + "/".join(part for part in (place.prefix, folder.path) if part))
    datastore = datastore_of(place, is_output)
    kind = "jobOutputType" if is_output else "jobInputType"
    body = {
        "uri": names.uri(datastore, place.prefix, folder.path),
        "mode": mode,
        kind: "uri_folder",
    }
    return FolderBinding(name, port, is_output, body, datastore, place)
