"""Checks sizes of machines and quotas of cores before anything is made: Azure refuses only after minutes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gofer.errors import CheckFailed
from gofer.ops.messages import Warning

if TYPE_CHECKING:
    from collections.abc import Callable

    from gofer.ops.messages import AnyMessage
    from gofer.transport.azure.managed_cluster import ClusterService, CoreUsage, VmSize

_TOTAL = "cores"
_SPOT = "lowPriorityCores"
_PROPOSED = 3


class NodeDemand(NamedTuple):
    """Nodes of one size: those that are needed now, and those that an autoscaler may add."""

    vm_size: str
    nodes: int
    most: int
    is_spot: bool = False


class CoreQuota(NamedTuple):
    """The sizes and quotas of a subscription in one location."""

    location: str
    sizes: Mapping[str, VmSize]
    usages: Mapping[str, CoreUsage]

    @classmethod
    def read(cls, service: ClusterService, subscription: str, location: str) -> CoreQuota:
        """Ask the service. Blocks for about a second."""
        sizes = service.vm_sizes(subscription, location)
        if not sizes:
            raise CheckFailed(
                f"no virtual machines are offered in `{location}`",
                hint="`--location` takes a name such as `eastus` or `westeurope`",
            )
        return cls(location, sizes, service.usages(subscription, location))

    def size(self, name: str) -> VmSize:
        """The size of that name; CheckFailed when this subscription cannot have it there."""
        found = self.sizes.get(name.lower())
        if found is not None and not found.refusal:
            return found
        gpus = found.gpus if found else 1 if name.upper().startswith(("STANDARD_N", "N")) else 0
        why = f" ({found.refusal})" if found else ""
        raise CheckFailed(f"`{name}` is not offered in `{self.location}`{why}", hint=self.proposal(gpus))

    def proposal(self, gpus: int) -> str:
        """Which sizes with as many GPUs this subscription can have, for a hint."""
        found = self.alternatives(gpus)[:_PROPOSED]
        if not found:
            return "ask for quota in the portal, or take another `--location`"
        return "offered are " + ", ".join(f"`{one.name}`" for one in found)

    def alternatives(self, gpus: int) -> list[VmSize]:
        """The sizes with as many GPUs of which one node fits, the smallest first."""
        found = [
            size
            for size in self.sizes.values()
            if size.gpus == gpus and not size.refusal and size.cores >= 2 and self._left(size) >= size.cores
        ]
        return sorted(found, key=lambda size: (size.cores, size.memory_gib, size.name))

    def check(self, demands: Iterable[NodeDemand], emit: Callable[[AnyMessage], None]) -> None:
        """CheckFailed when the nodes that are needed now do not fit; a warning when those of an autoscaler do
        not.
        """
        now: dict[str, int] = {}
        later: dict[str, int] = {}
        for demand in demands:
            size = self.size(demand.vm_size)
            for family in [_SPOT] if demand.is_spot else [size.family, _TOTAL]:
                now[family] = now.get(family, 0) + demand.nodes * size.cores
                later[family] = later.get(family, 0) + demand.most * size.cores
        for family, cores in now.items():
            usage = self.usages.get(family)
            if usage is not None and cores > usage.left:
                raise CheckFailed(
                    f"the quota of `{family}` in `{self.location}` has {usage.left} cores left "
                    f"({usage.used} of {usage.limit} are used), and {cores} are needed",
                    hint="take fewer nodes or another size, or ask for quota: "
                    "https://portal.azure.com/#view/Microsoft_Azure_Capacity/QuotaMenuBlade",
                )
            if usage is not None and later[family] > usage.left:
                emit(
                    Warning(
                        f"the quota of `{family}` has {usage.left} cores left, and the largest size of the "
                        f"pool needs {later[family]}: the autoscaler will stop before"
                    )
                )

    def _left(self, size: VmSize) -> int:
        usage = self.usages.get(size.family)
        return usage.left if usage else size.cores
