"""Mapped folders that the service itself brings: those that lie in Azure's blob storage. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from gofer.backends.azureml import names
from gofer.backends.registry import BlobPlace
from gofer.core import folder_modes
from gofer.model.job import JobFolder
from gofer.model.run import RunRecord

# A mount is read and written, unless it is to be read only; a copy is made before the start, an upload at the
# end. What is only read is an input of the job.
_MODES = {folder_modes.MOUNT: "ReadWriteMount", folder_modes.COPY: "Download", folder_modes.UPLOAD: "Upload"}


class FolderBinding(NamedTuple):
    """One folder: `port` is the name of its input or output, `datastore` where it lies."""

    name: str
    port: str
    is_output: bool
    body: dict[str, Any]
    datastore: str
    place: BlobPlace


def folders_of_run(record: RunRecord) -> dict[str, JobFolder]:
    """The folders, with the id of the run, or of the whole array, for `{run}` in their paths."""
    return {
        name: msgspec.structs.replace(folder, path=folder_modes.path_of_run(folder.path, record.id))
        for name, folder in record.job.folders.items()
    }


def brought(
    folders: Mapping[str, JobFolder],
    place_of: Callable[[str], BlobPlace | None],
    datastore_of: Callable[[BlobPlace, bool], str],
) -> tuple[FolderBinding, ...]:
    """Those of the folders that lie in Azure, in their order; the agent brings the others."""
    found: list[FolderBinding] = []
    for at, (name, folder) in enumerate(folders.items()):
        place = place_of(folder.store)
        if place is not None and folder.mode in _MODES:
            port = f"folder_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
            taken = any(one.port == port for one in found)
            found.append(_brought(name, f"{port}_{at}" if taken else port, folder, place, datastore_of))
    return tuple(found)


def _brought(
    name: str, port: str, folder: JobFolder, place: BlobPlace, datastore_of: Callable[[BlobPlace, bool], str]
) -> FolderBinding:
    mode = _MODES[folder.mode]
    if folder.mode == folder_modes.MOUNT and folder.read_only:
        mode = "ReadOnlyMount"
    is_output = mode in ("ReadWriteMount", "Upload")
    if place.scope:  # each folder is opened on its own there
        place = place._replace(scope="/" + "/".join(part for part in (place.prefix, folder.path) if part))
    datastore = datastore_of(place, is_output)
    kind = "jobOutputType" if is_output else "jobInputType"
    body = {
        "uri": names.uri(datastore, place.prefix, folder.path),
        "mode": mode,
        kind: "uri_folder",
    }
    return FolderBinding(name, port, is_output, body, datastore, place)
