"""The environment of a job: an image, an environment of the workspace, or an environment of a registry."""

from __future__ import annotations

from typing import NamedTuple

from gofer.backends.azureml import names
from gofer.backends.azureml.names import Workspace
from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.service import Service
from gofer.errors import CheckFailed
from gofer.transport.azure.problems import RequestRejected

# For targets that name no image: both hold Python and MPI. Singularity accepts any image with an image
# version.
_PLAIN = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04"
_GPU = "mcr.microsoft.com/azureml/openmpi4.1.0-cuda11.8-cudnn8-ubuntu22.04"

_CONFLICT = 409
CURATED = "AzureML-"


class Environment(NamedTuple):
    """`id` is what a job names; `image` is set when gofer makes the environment."""

    id: str
    image: str | None = None


def choose(options: AzureOptions, workspace: Workspace) -> Environment:
    """The environment of the target. Pure; `ensure` resolves a label when the job is sent."""
    if options.environment and not options.image:
        return Environment(_named(options.environment, workspace))
    image = options.image or (_GPU if options.gpus_per_node else _PLAIN)
    name, version = names.environment_of_image(image)
    return Environment(f"{workspace.id}/environments/{name}/versions/{version}", image)


def _named(word: str, workspace: Workspace) -> str:
    """The id of an environment that the target names.

    `NAME:VERSION` becomes an ARM id. `NAME@LABEL`, curated environments and those of registries go to the
    service unchanged. A name alone means its latest version.
    """
    if word.startswith(("azureml://", "/subscriptions/")):
        return word
    word = word.removeprefix("azureml:")
    word = word if "@" in word or ":" in word else f"{word}@latest"
    # The service resolves these itself.
    if "@" in word or word.startswith(CURATED):
        return f"azureml:{word}"
    name, _, version = word.partition(":")
    return f"{workspace.id}/environments/{name}/versions/{version}"


def is_labelled(environment_id: str) -> bool:
    """Whether `ensure` must look up the version behind a label.

    The service resolves labels of curated ones.
    """
    return environment_id.startswith("azureml:") and not environment_id.startswith(
        ("azureml://", f"azureml:{CURATED}")
    )


def ensure(service: Service, environment: Environment) -> str:
    """Make the environment if it is missing, and return the id for the job. Idempotent.

    Raises CheckFailed when the workspace has no environment of that name.
    """
    if is_labelled(environment.id):
        return _labelled(service, environment.id.removeprefix("azureml:"))
    if environment.image is None or service.known.get("environments", environment.id):
        return environment.id
    try:
        service.arm.put(environment.id, names.ENVIRONMENTS_API, environment_body(environment.image))
    except RequestRejected as error:
        # The name is a hash of the image, so a version that exists already has the right contents.
        if error.status != _CONFLICT:
            raise
    service.known.put("environments", environment.id, True)
    return environment.id


def environment_body(image: str) -> dict[str, object]:
    """The request body. Pure."""
    return {"properties": {"image": image, "isAnonymous": False, "isArchived": False}}


def _labelled(service: Service, word: str) -> str:
    """The id of the version behind `NAME@LABEL`; `latest` is the version that was made last."""
    name, _, label = word.partition("@")
    path = f"{service.workspace.id}/environments/{name}"
    if label == "latest":
        query = {"$orderBy": "createdtime desc", "$top": "1"}
        pages = service.arm.pages(f"{path}/versions", names.ENVIRONMENTS_API, **query)
        version = next((entry.get("name") for page in pages for entry in page), None)
    else:
        found = service.arm.find(f"{path}/labels/{label}", names.ENVIRONMENTS_API) or {}
        version = found.get("name")
    if version is None:
        raise CheckFailed(
            f"the workspace {service.workspace.name} has no environment `{word}`",
            hint="set `environment:` of the target to one that the workspace has, or set `image:`",
        )
    return f"{path}/versions/{version}"
