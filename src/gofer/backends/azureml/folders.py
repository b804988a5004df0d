"""Mapped folders that the service brings to the nodes: those in Azure Blob Storage. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from gofer.backends.azureml import names
from gofer.backends.kind import BlobPlace
from gofer.core import folder_modes
from gofer.model.job import JobFolder
from gofer.model.run import RunRecord

# How the service brings a folder. A folder that is only read becomes an input of the job; a folder that is
# written becomes an output.
_MODES = {folder_modes.MOUNT: "ReadWriteMount", folder_modes.COPY: "Download", folder_modes.UPLOAD: "Upload"}


class FolderBinding(NamedTuple):
    """One folder. `port` names its input or output in the job; `datastore` is where the folder is stored."""

    name: str
    port: str
    is_output: bool
    body: dict[str, Any]
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
        # Other modes, and folders in other stores, are left to the agent.
        if place is not None and folder.mode in _MODES:
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
