"""Describes this machine as a node of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.backends.base import NodeFacts

if TYPE_CHECKING:
    from gofer.remote.api import MachineFacts


def this_machine(facts: MachineFacts, gpus: int) -> NodeFacts:
    """The machine from the facts of `QueueClient.facts`; `gpus` is the number that the target may use."""
    gpus_free = max(gpus - facts.gpus_busy, 0)
    cpus_free = max(facts.cpus - facts.cpus_busy, 0)
    is_full = not cpus_free or (gpus > 0 and not gpus_free)
    is_idle = not facts.cpus_busy and not facts.gpus_busy
    return NodeFacts(
        name=facts.host,
        state="free" if is_idle else "busy" if is_full else "mixed",
        cpus=facts.cpus,
        cpus_free=cpus_free,
        memory_mib=facts.memory_mib,
        gpus=gpus,
        gpus_free=gpus_free,
        gpu_type=next((gpu["name"] for gpu in facts.usage if "name" in gpu), ""),
    )


def summary(facts: MachineFacts, machine: NodeFacts, gpus_per_node: int) -> dict[str, object]:
    """The facts for `gofer target show`. The counts include runs of other targets, which share the queue."""
    counts = facts.counts
    return {
        "gpus": {"free": machine.gpus_free, "total": machine.gpus},
        "gpus_per_node": gpus_per_node,
        "cpus": {"free": machine.cpus_free, "total": machine.cpus},
        "memory_mib": machine.memory_mib,
        "runs": {
            "running": counts.get("running", 0) + counts.get("starting", 0),
            "queued": counts.get("queued", 0),
        },
        "usage": facts.usage,
    }
