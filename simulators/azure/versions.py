"""The `api-version` of ARM for each kind of resource; ARM answers no request without it."""

from __future__ import annotations

from simulators.azure.messages import Refused

# Those that azure-ai-ml 1.35.2 pins in its `_ml_client.py` and the default of its generated client, and the
# stable 2024-04-01.
_MACHINE_LEARNING = (
    *("2022-02-01-preview", "2022-05-01", "2022-10-01", "2022-10-01-preview", "2023-02-01-preview"),
    *("2023-04-01", "2023-04-01-preview", "2023-06-01-preview", "2023-08-01-preview", "2023-10-01"),
    *("2024-01-01-preview", "2024-04-01", "2024-04-01-preview", "2024-10-01-preview", "2025-01-01-preview"),
    "2025-12-01",
)
# By a part of the route; the first that fits counts.
_KNOWN = {
    "Microsoft.ContainerService/locations": ("2016-03-30",),
    "/managedClusters": ("2024-09-01", "2025-05-01", "2026-08-01"),
    "Microsoft.Compute/skus": ("2021-07-01",),
    "/usages": ("2024-07-01", "2026-04-01"),
    "/virtualClusters": ("2021-03-01-preview",),
    "/instancetypeseries": ("2021-03-01-preview",),
    "/workspaces": _MACHINE_LEARNING,
    "/resourceGroups": ("2020-06-01", "2021-04-01", "2022-09-01", "2025-04-01"),
    "/operationresults": ("2020-06-01", "2021-04-01", "2022-09-01", "2025-04-01"),
    "/subscriptions": ("2016-06-01", "2020-01-01", "2022-12-01"),
    "/tenants": ("2016-06-01", "2020-01-01", "2022-12-01"),
    "/metadata/endpoints": ("2019-05-01", "2022-09-01"),
}
# What the routes of ARM begin with; the data plane, the login and the simulator's own begin otherwise.
_ARM = ("/subscriptions", "/tenants", "/metadata/endpoints")


def check(route: str, version: str | None) -> None:
    """Refused with 400, as ARM says it, without a version or with one that the resource does not have."""
    if not route.startswith(_ARM):
        return
    if not version:
        message = "The api-version query parameter (?api-version=) is required for all requests."
        raise Refused(400, "MissingApiVersionParameter", message)
    known = next(versions for part, versions in _KNOWN.items() if part in route)
    if version not in known:
        message = f"The api-version '{version}' is invalid. The supported versions are '{','.join(known)}'."
        raise Refused(400, "InvalidApiVersionParameter", message)
