"""What the command runs in: an image, an environment of the workspace, or one of a registry."""

from __future__ import annotations

from typing import Any, NamedTuple

from gofer.backends.azureml import names
from gofer.backends.azureml.names import Workspace
from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.service import Service
from gofer.errors import CheckFailed
from gofer.transport.azure.problems import RequestRejected

# Where a target names none: they hold Python and MPI. Singularity takes any where an image version is given.
_PLAIN = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04"
_GPU = "mcr.microsoft.com/azureml/openmpi4.1.0-cuda11.8-cudnn8-ubuntu22.04"

_CONFLICT = 409
_CURATED = "AzureML-"


class Environment(NamedTuple):
    """`id` as a job names it; `image` is set where gofer makes the environment."""

    id: str
    image: str | None = None


def choose(options: AzureOptions, workspace: Workspace) -> Environment:
    """Pure. A label is kept as it is until the job is sent."""
    if options.environment and not options.image:
        return Environment(_named(options.environment, workspace))
    image = options.image or (_GPU if options.gpus_per_node else _PLAIN)
    name, version = names.environment_of_image(image)
    return Environment(f"{workspace.id}/environments/{name}/versions/{version}", image)


def _named(word: str, workspace: Workspace) -> str:
    """`NAME:VERSION` is an ARM id; the service takes `NAME@LABEL`, curated ones and those of registries as
    they are. A name alone is its latest.
    """
    if word.startswith(("azureml://", "/subscriptions/")):
        return word
    word = word.removeprefix("azureml:")
    word = word if "@" in word or ":" in word else f"{word}@latest"
    if "@" in word or word.startswith(_CURATED):
        return f"azureml:{word}"
    name, _, version = word.partition(":")
    return f"{workspace.id}/environments/{name}/versions/{version}"


def is_labelled(environment_id: str) -> bool:
    """Whether the workspace must be asked which version a label means; curated ones it knows by itself."""
    return environment_id.startswith("azureml:") and not environment_id.startswith(
        ("azureml://", f"azureml:{_CURATED}")
    )


def ensure(service: Service, environment: Environment) -> str:
    """Have the environment there; its id as the job is to name it. Idempotent.

    CheckFailed when the workspace has none of that name.
    """
    if is_labelled(environment.id):
        return _labelled(service, environment.id.removeprefix("azureml:"))
    if environment.image is None or service.known.get("environments", environment.id):
        return environment.id
    try:
        service.arm.put(environment.id, names.ENVIRONMENTS_API, environment_body(environment.image))
    except RequestRejected as error:
        if error.status != _CONFLICT:  # a version is made once, and its name says what is in it
            raise
    service.known.put("environments", environment.id, True)
    return environment.id


def environment_body(image: str) -> dict[str, Any]:
    """The request body. Pure."""
    return {"properties": {"image": image, "isAnonymous": False, "isArchived": False}}


def _labelled(service: Service, word: str) -> str:
    """`latest` is the version that was made last; others are of the environment itself."""
    name, _, label = word.partition("@")
    path = f"{service.workspace.id}/environments/{name}"
    if label == "latest":
        query = {"$orderBy": "createdtime desc", "$top": "1"}
        pages = service.arm.pages(f"{path}/versions", names.ENVIRONMENTS_API, **query)
        version = next((one.get("name") for page in pages for one in page), None)
    else:
        found = service.arm.find(f"{path}/labels/{label}", names.ENVIRONMENTS_API) or {}
        version = found.get("name")
    if version is None:
        raise CheckFailed(
            f"the workspace {service.workspace.name} has no environment `{word}`",
            hint="set `environment:` of the target to one that it has, or `image:`",
        )
    return f"{path}/versions/{version}"
