"""Inputs, outputs and code of a job: copied from the blob store to a node's folders, and back."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from simulators.azure.blobs import BlobError, Container
from simulators.azure.documents import Documents
from simulators.azure.jobs import SimulatedJob
from simulators.azure.messages import Json
from simulators.azure.read_only_inputs import ReadOnlyInput, make_read_only
from simulators.azure.storage import Storage

_DATASTORE = re.compile(r"azureml:/?/?(?:subscriptions/.*?/)?datastores/([^/]+)(?:/paths)?/?(.*)", re.DOTALL)


class DataError(Exception):
    """The service could not bring or take a job's data: what its error says."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Mounted:
    """A folder that goes back to its place when the job ends. `seen` is what was there when it began."""

    container: Container
    prefix: str
    path: Path
    seen: dict[str, str] = field(default_factory=dict)


@dataclass
class Data:
    """The data of one attempt. Not for several threads at once."""

    documents: Documents
    storage: Storage
    job: SimulatedJob
    who: str
    # Inputs that the job must leave as they are.
    read_only_inputs: list[ReadOnlyInput] = field(default_factory=list)

    def pull_image(self) -> None:
        """DataError for an image with the words `no-such-image` in its name; every other one is there."""
        environment = self.documents.get("environment", str(self.job.properties.get("environmentId") or ""))
        image = str((environment or {}).get("properties", {}).get("image") or "")
        if "no-such-image" in image:
            reason = f"Error response from daemon: manifest for {image} not found: manifest unknown"
            raise DataError(f"Failed to pull Docker image {image}. Reason: {reason}", "ImagePullError")

    def bring_inputs(self, folder: Path) -> dict[str, str]:
        """Each input's value in the command, its files copied below `folder`; DataError when it cannot be."""
        values = {}
        for name, given in (self.job.properties.get("inputs") or {}).items():
            kind = str(given.get("jobInputType") or "")
            if kind == "literal":
                values[name] = str(given.get("value", ""))
            elif str(given.get("mode") or "") == "Direct":
                values[name] = str(given.get("uri", ""))
            else:
                values[name] = str(self._bring(name, given, folder / name, one=kind == "uri_file"))
                if str(given.get("mode") or "ReadOnlyMount") == "ReadOnlyMount":
                    self.read_only_inputs.append(make_read_only(name, folder / name))
        return values

    def check_inputs(self) -> None:
        """DataError when the job changed what it was to read only. On the service it could not have."""
        for one in self.read_only_inputs:
            if changed := one.changed():
                message = f"The input '{one.name}' is mounted read-only, and the job changed it: {changed}"
                raise DataError(message, "ReadOnlyInputChanged")

    def bring_code(self, folder: Path) -> None:
        """The files of the job's code asset, into its working folder."""
        code_id = self.job.properties.get("codeId")
        if not code_id:
            return
        code = self.documents.get("code", str(code_id))
        if code is None:
            raise DataError(f"The code asset '{code_id}' was not found", "NotFound")
        uri = code["properties"].get("codeUri") or ""
        account = uri.split("?")[0]
        container, path = self.storage.by_url(account, "workspace")
        own = self.storage.own(container.url.path.strip("/"), container.name)
        self._copy(own, path.rstrip("/") + "/", folder)

    def open_outputs(self, folder: Path) -> tuple[dict[str, str], list[Mounted]]:
        """Each output's folder; a mounted one holds what its place held. DataError when it cannot be had."""
        values, mounted = {}, []
        for name, given in (self.job.properties.get("outputs") or {}).items():
            if name == "default":
                continue
            container, path = self._place(output_uri(self.job, name), name)
            one = Mounted(container, path.rstrip("/") + "/" if path else "", folder / name)
            one.path.mkdir(parents=True, exist_ok=True)
            if str(given.get("mode") or "ReadWriteMount") != "Upload":
                try:
                    self._copy(container, one.prefix, one.path)
                except BlobError as error:
                    raise _denied("mount", name, error) from None
            one.seen = _marks(one.path)
            values[name] = str(one.path)
            mounted.append(one)
        return values, mounted

    def give_back(self, mounted: list[Mounted]) -> None:
        """What is new or changed goes to its place, what was removed goes from it; DataError when refused."""
        for one in mounted:
            now = _marks(one.path)
            try:
                for name, mark in now.items():
                    if one.seen.get(name) != mark:
                        one.container.put(one.prefix + name, (one.path / name).read_bytes())
                for name in one.seen.keys() - now.keys():
                    one.container.delete(one.prefix + name)
            except BlobError as error:
                raise _denied("upload", one.path.name, error) from None
            one.seen = now
            one.container.close()

    def _bring(self, name: str, given: Json, folder: Path, *, one: bool) -> Path:
        container, path = self._place(str(given.get("uri") or ""), name)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if one:
                target = folder / Path(path).name
                target.write_bytes(container.get(path))
                return target
            if self._copy(container, path.rstrip("/") + "/" if path else "", folder) == 0:
                raise DataError(
                    f"Failed to start data capability for input '{name}': NotFound: {path}", "NotFound"
                )
            return folder
        except BlobError as error:
            raise _denied("download", name, error) from None
        finally:
            container.close()

    def _place(self, uri: str, name: str) -> tuple[Container, str]:
        try:
            found = _DATASTORE.fullmatch(uri)
            if found:
                datastore = self.documents.get("datastore", f"{self.job.workspace}/datastores/{found[1]}")
                if datastore is None:
                    raise DataError(
                        f"The datastore '{found[1]}' of '{name}' was not found", "DatastoreNotFound"
                    )
                return self.storage.by_datastore(datastore, self.who), found[2]
            if uri.startswith("https://"):
                return self.storage.by_url(uri, self.who)
        except BlobError as error:
            raise _denied("reach", name, error) from None
        asset = self.documents.get("data", uri.removeprefix("azureml:"))
        if asset is None:
            raise DataError(f"The path of '{name}' is not understood: {uri}", "InvalidUri")
        return self._place(str(asset["properties"].get("dataUri")), name)

    def _copy(self, container: Container, prefix: str, folder: Path) -> int:
        count = 0
        for blob in container.list(prefix):
            relative = blob.name[len(prefix) :]
            target = folder / relative
            if (
                not relative
                or folder.resolve() not in Path(os.path.normpath(folder.resolve() / relative)).parents
            ):
                continue
            count += 1
            if relative.endswith("/"):
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_dir():
                target.write_bytes(container.get(blob.name))
        return count


def output_uri(job: SimulatedJob, name: str) -> str:
    """Where an output goes, in the long form: the place the job names, or one in the workspace's store."""
    given = (job.properties.get("outputs") or {}).get(name) or {}
    uri = str(given.get("uri") or f"azureml://datastores/workspaceblobstore/paths/azureml/{job.name}/{name}/")
    found = _DATASTORE.fullmatch(uri)
    if found is None:
        return uri
    parts = job.workspace.split("/")
    place = f"subscriptions/{parts[2]}/resourcegroups/{parts[4]}/workspaces/{parts[8]}"
    return f"azureml://{place}/datastores/{found[1]}/paths/{found[2]}"


def _marks(folder: Path) -> dict[str, str]:
    """Every file below, and a mark of its content."""
    marks = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            if path.is_file():
                with open(path, "rb") as stream:
                    marks[path.relative_to(folder).as_posix()] = hashlib.file_digest(
                        stream, "sha256"
                    ).hexdigest()
    return marks


def _denied(what: str, name: str, error: BlobError) -> DataError:
    kinds = {403: "PermissionDenied", 401: "PermissionDenied", 404: "NotFound"}
    kind = kinds.get(error.status, "ConnectionFailure")
    message = f"Failed to {what} '{name}': DataAccessError({kind}(Some({error.code})))"
    return DataError(message, f"ScriptExecution.StreamAccess.{kind}")
