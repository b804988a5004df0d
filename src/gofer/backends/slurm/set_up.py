"""Sets up a target of kind `slurm`: visits the login node, and asks for the partition."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from gofer.backends.target_setup import (
    Fact,
    Question,
    SetTarget,
    Setup,
    Step,
    check_python,
    visit,
)
from gofer.errors import CheckFailed
from gofer.text import count_nodes

if TYPE_CHECKING:
    from gofer.backends.kind import CheckContext
    from gofer.transport.describe_machine import MachineDescription, Partition


def set_up(name: str, context: CheckContext) -> Setup:
    """Ask for the login node and what the site leaves open. CheckFailed for a machine without Slurm."""
    text = "login node for ssh: user@host (empty: this machine is a login node)"
    login: str = yield Question("login", text, default="", is_host=True)
    where = login or "this machine"
    machine = yield from visit(login, where)
    if not machine.partitions:
        has = "`sinfo` shows no partition" if machine.has_slurm else "there is no `sinfo`"
        raise CheckFailed(
            f"{where} is no login node of Slurm: {has}",
            hint="name the login node with `--host`, or a machine without Slurm with `--kind ssh`",
        )
    options: dict[str, Any] = {"kind": "slurm", **({"login": login} if login else {})}
    for partition in machine.partitions:
        yield Fact(f"partition {partition.name}", _describe(partition))
    partition = yield from _choose_partition(machine)
    options["partition"] = partition.name
    options |= yield from _gpu_options(partition)
    if len(machine.accounts) > 1:
        text = "account that pays for the runs"
        options["account"] = yield Question("account", text, machine.accounts, machine.accounts[0])
    options |= check_python(machine, where)
    yield Fact("folder", _describe_home(machine))
    return SetTarget(options)


def _choose_partition(machine: MachineDescription) -> Generator[Step, Any, Partition]:
    names = tuple(one.name for one in machine.partitions)
    usual = next((one.name for one in machine.partitions if one.is_default), names[0])
    answer = usual
    if len(names) > 1:
        answer = yield Question("partition", "partition of the runs", names, usual)
    return next(one for one in machine.partitions if one.name == answer)


def _gpu_options(partition: Partition) -> Generator[Step, Any, dict[str, Any]]:
    """`gpus_per_node`, and `gpu_type` where the partition has several types."""
    if not partition.gpus:
        return {}
    kinds = tuple(partition.gpus)
    kind = kinds[0]
    if len(kinds) > 1:
        kind = yield Question("gpu_type", "type of GPU", kinds, kind)
    options: dict[str, Any] = {"gpus_per_node": partition.gpus[kind]}
    return options | ({"gpu_type": kind} if len(kinds) > 1 else {})


def _describe(partition: Partition) -> str:
    gpus = ", ".join(
        f"{count} GPUs{'' if kind == 'gpu' else f' {kind}'}" for kind, count in partition.gpus.items()
    )
    nodes = f"{count_nodes(partition.nodes)} of {partition.cpus} CPUs{f' and {gpus}' if gpus else ''}"
    marks = ["the default"] * partition.is_default + ["not up"] * (not partition.is_up)
    shown = f" ({', '.join(marks)})" if marks else ""
    limit = partition.time_limit
    runs = "no time limit" if limit == "infinite" else f"runs of at most {limit}"
    return f"{nodes}, {runs}{shown}"


def _describe_home(machine: MachineDescription) -> str:
    if machine.has_shared_home:
        return f"{machine.home} is on {machine.disk}, which all nodes see"
    return (
        f"{machine.home}/.gofer, on {machine.disk or 'an unknown disk'}: all nodes must see it; "
        "`folder=/shared/folder` names another"
    )
