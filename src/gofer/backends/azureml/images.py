"""The images that the service itself has for the jobs of a target."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from gofer.backends.azureml.environments import CURATED
from gofer.backends.azureml.names import OWN_ENVIRONMENT
from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.service import Service
from gofer.backends.base import ServiceImage
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
    found = _answer(service, instance_type or "", lambda: service.images(instance_type))
    return {str(name): str(text) for name, text in found.items()}


def list_images(service: Service, options: AzureOptions) -> list[ServiceImage]:
    """Singularity's own images for the target's instance type, then the curated environments of the
    workspace, then its other environments. Leaves out the environments that gofer makes of images.
    """
    found = []
    if options.platform == "singularity":
        own = singularity_images(service, options.instance_type)
        found = [
            ServiceImage(name, "singularity", f"image_version: {name}", text) for name, text in own.items()
        ]
    versions = _answer(service, "environments", lambda: _newest_versions(service))
    rows = [
        ServiceImage(
            name,
            "curated" if name.startswith(CURATED) else "environment",
            f"environment: {name}:{version}",
        )
        for name, version in versions.items()
        if not name.startswith(OWN_ENVIRONMENT)
    ]
    return found + sorted(rows, key=lambda row: (row.kind, row.name))


def _newest_versions(service: Service) -> dict[str, str]:
    found = {}
    for entry in service.environments():
        version = (entry.get("properties") or {}).get("latestVersion")
        if version:
            found[str(entry["name"])] = str(version)
    return found


def _answer(service: Service, key: str, ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """The answer that is kept, if it is younger than an hour; else that of `ask`, which is kept."""
    kept = service.known.get("images", key)
    if kept is None or not 0 <= time.time() - float(kept["at"]) < _FRESH_S:
        kept = {"at": time.time(), "answer": ask()}
        service.known.put("images", key, kept)
    answer: Mapping[str, Any] = kept["answer"]
    return answer
