"""The sizes of virtual machines, and the quota of cores that a subscription has of each family."""

from __future__ import annotations

import re
from typing import NamedTuple

from simulators.azure.documents import Documents
from simulators.azure.messages import Json, Refused, SimulatedRequest, SimulatedResponse
from simulators.azure.routes import SUBSCRIPTION, Route


class VmSize(NamedTuple):
    """A size; `family` is the name of its quota."""

    name: str
    family: str
    cores: int
    gpus: int
    memory_gib: int


# Standard_NC6s_v3 is not among them: the service retired it in September 2025.
VM_SIZES = (
    VmSize("Standard_DS2_v2", "standardDSv2Family", 2, 0, 7),
    VmSize("Standard_D2s_v5", "standardDSv5Family", 2, 0, 8),
    VmSize("Standard_D4s_v5", "standardDSv5Family", 4, 0, 16),
    VmSize("Standard_NC4as_T4_v3", "Standard NCASv3_T4 Family", 4, 1, 28),
    VmSize("Standard_NC24ads_A100_v4", "StandardNCADSA100v4Family", 24, 1, 220),
    VmSize("Standard_ND96asr_v4", "standardNDASv4_A100Family", 96, 8, 900),
)
_LIMITS = {
    "cores": 200,
    "lowPriorityCores": 100,
    "standardDSv2Family": 20,
    "standardDSv5Family": 20,
    "Standard NCASv3_T4 Family": 32,
    "StandardNCADSA100v4Family": 0,
    "standardNDASv4_A100Family": 96,
}
LOCATIONS = ("eastus", "southcentralus", "westeurope")
_COMPUTE = SUBSCRIPTION + "/providers/Microsoft.Compute"


def size_named(name: str) -> VmSize | None:
    return next((size for size in VM_SIZES if size.name.lower() == name.lower()), None)


class VmSizes:
    """The listings of sizes and quotas, and the check of a quota."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def routes(self) -> list[Route]:
        return [
            Route("GET", _COMPUTE + "/skus", self._skus),
            Route("GET", _COMPUTE + "/locations/{location}/usages", self._usages),
        ]

    def set_limits(self, limits: Json) -> None:
        """Change the limits of these families, in all locations."""
        self._documents.put("quota", "limits", {**self._limits(), **limits})

    def check(self, subscription: str, location: str, wanted: dict[str, int]) -> None:
        """Refused when a family has fewer cores left than `wanted` says."""
        used = self._used(subscription, location)
        for family, cores in wanted.items():
            left = self._limits().get(family, 0) - used.get(family, 0)
            if cores > left:
                message = (
                    f"Insufficient vcpu quota requested {cores}, remaining {left} for family {family} "
                    f"for region {location}."
                )
                raise Refused(400, "ErrCode_InsufficientVCPUQuota", message)

    def _limits(self) -> dict[str, int]:
        return {**_LIMITS, **(self._documents.get("quota", "limits") or {})}

    def _used(self, subscription: str, location: str) -> dict[str, int]:
        used: dict[str, int] = {}
        for cluster in self._documents.all("managedcluster", f"/subscriptions/{subscription}/"):
            if cluster["location"] != location:
                continue
            for pool in self._documents.all("agentpool", f"{cluster['id']}/agentPools/"):
                for family, cores in cores_of(pool["properties"]).items():
                    used[family] = used.get(family, 0) + cores
        return used

    def _usages(self, request: SimulatedRequest) -> SimulatedResponse:
        location = request.parts["location"].lower()
        if location not in LOCATIONS:
            message = f"No registered resource provider found for location '{location}'."
            raise Refused(400, "NoRegisteredProviderFound", message)
        used = self._used(request.parts["sub"], location)
        rows = [
            {
                "name": {"value": family, "localizedValue": family},
                "unit": "Count",
                "currentValue": used.get(family, 0),
                "limit": limit,
            }
            for family, limit in self._limits().items()
        ]
        return SimulatedResponse(body={"value": rows})

    def _skus(self, request: SimulatedRequest) -> SimulatedResponse:
        """With the filter `location eq 'NAME'`, the sizes of one location; of all without."""
        found = re.fullmatch(r"location eq '([^']*)'", request.query.get("$filter", ""))
        locations = [found[1].lower()] if found else list(LOCATIONS)
        rows = [_sku(size, place) for place in locations if place in LOCATIONS for size in VM_SIZES]
        return SimulatedResponse(body={"value": rows})


def cores_of(properties: Json) -> dict[str, int]:
    """The cores that a pool takes, by quota."""
    size, count = size_named(str(properties.get("vmSize", ""))), int(properties.get("count") or 0)
    if size is None:
        return {}
    if properties.get("scaleSetPriority") == "Spot":
        return {"lowPriorityCores": size.cores * count}
    return {size.family: size.cores * count, "cores": size.cores * count}


def _sku(size: VmSize, location: str) -> Json:
    capabilities = {"vCPUs": size.cores, "MemoryGB": size.memory_gib, "LowPriorityCapable": "True"}
    capabilities |= {"GPUs": size.gpus} if size.gpus else {}
    # Large machines are not sold to every subscription; another one has them.
    withheld = size.name == "Standard_ND96asr_v4" and location != "eastus"
    restriction = {
        "type": "Location",
        "values": [location],
        "restrictionInfo": {"locations": [location]},
        "reasonCode": "NotAvailableForSubscription",
    }
    return {
        "resourceType": "virtualMachines",
        "name": size.name,
        "tier": "Standard",
        "size": size.name.removeprefix("Standard_"),
        "family": size.family,
        "locations": [location],
        "locationInfo": [{"location": location, "zones": ["1", "2", "3"]}],
        "capabilities": [{"name": name, "value": str(value)} for name, value in capabilities.items()],
        "restrictions": [restriction] if withheld else [],
    }
