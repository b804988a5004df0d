"""The images that the service itself has for the jobs of a target."""

from __future__ import annotations

import time
from collections.abc import Mapping

from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.service import Service
from gofer.errors import CredentialError
from gofer.transport.azure.problems import RequestRejected, ResourceNotFound

# The newest image of Singularity with PyTorch, under a name that stays.
_USUAL = "pytorch"
_FRESH_S = 3600.0


def default_image(service: Service, options: AzureOptions) -> str | None:
    """The image of Singularity's own for a target that names none; None on other platforms, for a target that
    names one, and where the service lists no images. Asks the service at most once an hour.
    """
    if options.platform != "singularity" or options.image or options.environment:
        return None
    try:
        found = singularity_images(service, options.instance_type)
    except (CredentialError, RequestRejected, ResourceNotFound):
        return None  # a person may run jobs without the right to list images
    return _USUAL if _USUAL in found else next(iter(found), None)


def singularity_images(service: Service, instance_type: str | None) -> Mapping[str, str]:
    """The names of Singularity's own images for the instance type, or for all, with what each has. Answers
    are kept for an hour.
    """
    key = instance_type or ""
    kept = service.known.get("images", key)
    if kept is None or not 0 <= time.time() - float(kept["at"]) < _FRESH_S:
        kept = {"at": time.time(), "images": service.images(instance_type)}
        service.known.put("images", key, kept)
    return {str(name): str(text) for name, text in kept["images"].items()}
