"""Helpers for the checks of a target: its options, its workspace, listings, the most similar name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from gofer.backends.azureml.names import Workspace
from gofer.backends.azureml.options import AzureOptions
from gofer.errors import GoferError
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from gofer.backends.azureml.checks.login import Access
    from gofer.backends.azureml.names import Workspace
    from gofer.config.targets import Target


def options_of(target: Target) -> AzureOptions:
    return cast(AzureOptions, target.options)


def workspace_of(target: Target) -> Workspace:
    return Workspace(
        *(str(getattr(options_of(target), key)) for key in ("subscription_id", "resource_group", "workspace"))
    )


def listed(access: Access, path: str, api: str) -> list[dict[str, Any]]:
    """All rows of a listing with several pages. Errors are those of `gofer.transport.azure`."""
    return [row for page in access.arm.pages(path, api) for row in page]


def names_in(access: Access, path: str, api: str) -> list[str]:
    """The names in a listing; empty when the listing is refused."""
    try:
        return [str(one.get("name", "")) for one in listed(access, path, api)]
    except GoferError:
        return []


def nearest(wanted: str, known: list[str], what: str) -> str:
    """A hint with the most similar name, else with the known names."""
    near = did_you_mean(wanted, known)
    listed = ", ".join(f"`{name}`" for name in known[:10])
    return near or (f"the {what} there are {listed}" if known else f"you see no {what} there")
