"""`petctl upload_storage`, `storage_secret` and `docker_secret`: stores, folders and credentials."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from gofer.backends.kubernetes.aks import kubeconfig_of
from gofer.config.yaml.text import Entry
from gofer.errors import StoreError
from gofer.importers.petctl import training_command
from gofer.ops.clusters.cluster_place import environ_of
from gofer.ops.data.store_check import check_store
from gofer.ops.petctl.cluster import place_of, write_target
from gofer.ops.petctl.project import TARGET, PetProject
from gofer.transport.kubernetes.client import KubeApiError, KubeClient

if TYPE_CHECKING:
    from collections.abc import Mapping

# The variable by which `az` reaches an account outside of Azure's own domain.
ENDPOINT_VARIABLE = "AZURE_STORAGE_SERVICE_ENDPOINT"
_BLOB_SECRET = "pet-blob-secret"
_DOCKER_SECRET = "pet-docker-secret"
_RUNS_CONTAINER = "gofer-runs"


def add_container(project: PetProject, account: str, container: str, sas: str) -> str:
    """Make the container a store and a mapped folder `./CONTAINER` of each run; the name of the store."""
    reference = project.keep_secret(f"sas-{container}", sas.lstrip("?"))
    name = store_of(container)
    _write_store(project, name, account, container, {"sas": reference})
    # Images for training have no program that mounts; the older tool showed the containers read-only, too.
    folder: Entry = {"store": name, "path": "/", "mode": "copy", "read_only": True}
    project.write_setting(["folders", container], folder)
    project.remember(account=account, endpoint=_endpoint(project))
    return name


def note_upload(project: PetProject, container: str, name: str) -> None:
    """Remember what was sent to the container: the command of the job names it."""
    uploads = {**project.files.state().uploads, container: name}
    project.remember(uploads=uploads)
    job = project.files.job()
    project.files.write_job(job._replace(command=training_command(uploads)))


def add_account_key(project: PetProject, account: str, key: str) -> None:
    """Use the key for the containers of the account and for a new one that holds the runs. The cluster gets
    it as the secret of the older tool, for volumes. StoreError when the account does not accept the key.
    """
    credential: Entry = {"key": project.keep_secret("account-key", key)}
    _write_store(project, TARGET, account, _RUNS_CONTAINER, credential)
    for container in project.files.state().uploads:
        _write_store(project, store_of(container), account, container, credential)
    for check in check_store(project.session, TARGET, create=True):
        if not check.ok:
            raise StoreError(f"the account `{account}` cannot be used: {check.detail}", hint=check.hint)
    project.remember(account=account, endpoint=_endpoint(project))
    values = {"azurestorageaccountname": account, "azurestorageaccountkey": key}
    _write_secret(project, _BLOB_SECRET, "Opaque", values)
    write_target(project)


def add_registry(project: PetProject, server: str, username: str, password: str, image: str) -> None:
    """Give the cluster the login of a registry of images; `image` is that of the job, if named."""
    project.keep_secret("docker-password", password)
    token = base64.b64encode(f"{username}:{password}".encode()).decode()
    entry = {"username": username, "password": password, "auth": token}
    document = json.dumps({"auths": {server: entry}})
    _write_secret(project, _DOCKER_SECRET, "kubernetes.io/dockerconfigjson", {".dockerconfigjson": document})
    project.remember(pull_secret=_DOCKER_SECRET)
    if image:
        project.files.write_job(project.files.job()._replace(image=image))
    write_target(project)


def store_of(container: str) -> str:
    """The name of the store of a container."""
    return f"{TARGET}-{container}"


def _write_store(project: PetProject, name: str, account: str, container: str, credential: Entry) -> None:
    endpoint = _endpoint(project)
    place: Entry = {"url": f"az://{container}", "account": account}
    place |= {"endpoint": endpoint} if endpoint else {}
    project.write_setting(["stores", name], {**place, **credential})


def _endpoint(project: PetProject) -> str:
    return project.session.environ.get(ENDPOINT_VARIABLE, "").rstrip("/") or project.files.state().endpoint


def _write_secret(project: PetProject, name: str, kind: str, values: Mapping[str, str]) -> None:
    """Write a secret into the namespace of the cluster's kubeconfig, in place of one of this name."""
    session, place = project.session, place_of(project)
    context = kubeconfig_of(place.cluster, environ_of(session, place), str(session.paths.queue_home))
    path = f"/api/v1/namespaces/{context.namespace}/secrets"
    labels = {"app.kubernetes.io/managed-by": "gofer"}
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": labels},
        "type": kind,
        "stringData": dict(values),
    }
    client = KubeClient(context)
    try:
        client.create(path, body)
    except KubeApiError as error:
        if error.status != 409:
            raise
        client.patch(f"{path}/{name}", {"stringData": dict(values)})
    finally:
        client.close()
