"""Sets up a target of kind `ssh`: visits each machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gofer.backends.target_setup import (
    Fact,
    Question,
    SetTarget,
    Setup,
    check_python,
    visit,
)

if TYPE_CHECKING:
    from gofer.backends.kind import CheckContext


def set_up(name: str, context: CheckContext) -> Setup:
    """Ask for the hosts, and find the Python of the machines. CheckFailed for a machine without Python."""
    text = "host for ssh: user@host, or a name of ~/.ssh/config"
    answer: str = yield Question("hosts", text, is_host=True)
    hosts = [host.strip() for host in answer.split(",") if host.strip()]
    options: dict[str, Any] = {"kind": "ssh", "hosts": hosts}
    for host in hosts:
        machine = yield from visit(host, host)
        options |= check_python(machine, host)
        if machine.partitions:
            yield Fact(host, "has Slurm: `--kind slurm` makes a target that uses its queue")
    return SetTarget(options)
