"""`gofer cluster`: clusters of Azure Kubernetes Service, made, shown, scaled and removed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from gofer.cli.options import Command, Flag, Option, json_option, offers, quiet_option, target_option
from gofer.cli.output.done import record_done
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import answer_prompt, print_message, print_nothing
from gofer.cli.output.table import Column, render, render_facts, screen_width
from gofer.errors import UsageError
from gofer.ops.clusters.cluster_place import ClusterChoice, ClusterPlace, find_place, targets_of
from gofer.ops.clusters.cluster_plan import parse_size
from gofer.ops.clusters.create import (
    DEFAULT_SYSTEM_VM_SIZE,
    DEFAULT_VM_SIZE,
    CreateRequest,
    create_cluster,
)
from gofer.ops.clusters.delete import delete_cluster, plan_removal
from gofer.ops.clusters.scale import scale_cluster
from gofer.ops.clusters.show import show_cluster
from gofer.ops.messages import Hint, Message
from gofer.ops.session import Session
from gofer.text import format_ago, format_duration, parse_duration_s

if TYPE_CHECKING:
    from gofer.ops.clusters.delete import ClusterRemoval
    from gofer.ops.clusters.show import ClusterView, PoolView

_POOLS = [
    Column("POOL"),
    Column("MODE"),
    Column("SIZE", flexible=True),
    Column("NODES", right=True),
    Column("STATE"),
]
_WORK = [Column("KIND"), Column("NAME", flexible=True), Column("STARTED")]


def create(**given: Any) -> int:
    """The cluster as facts, or JSON."""
    size = parse_size(given["nodes"])
    with _session(given) as session:
        place = _place(session, given)
        request = CreateRequest(
            place,
            given["location"],
            vm_size=given["vm_size"],
            size=size,
            system_vm_size=given["system_vm_size"],
            is_spot=given["spot"],
            taints=given["taints"],
            dns_prefix=given["dns_prefix"] or "",
            kubernetes_version=given["kubernetes_version"] or "",
            wait_s=_wait_s(given),
        )
        made = create_cluster(session, request)
        record_done(f"the cluster `{made.name}` was made")
        _print(made, given)
        if not targets_of(session, place.cluster):
            session.emit(Hint(f"a target that uses it, for gofer.yaml: {_target_line(place)}"))
    return 0


def show(**given: Any) -> int:
    """The cluster as facts, or JSON."""
    with _session(given) as session:
        wait_s = parse_duration_s(given["timeout"]) if given["wait"] else 0.0
        _print(show_cluster(session, _place(session, given), wait_s=wait_s), given)
    return 0


def scale(**given: Any) -> int:
    """The cluster with the new number of nodes, or JSON."""
    name, size = given["name"], given["size"]
    if size is None:  # one word is the size: the cluster is that of the target
        name, size = None, name
    if size is None:
        raise UsageError("the number of nodes is missing", hint="`gofer cluster scale NAME 3`")
    wanted = parse_size(size)
    with _session(given) as session:
        place = _place(session, {**given, "name": name})
        found = scale_cluster(session, place, wanted, wait_s=_wait_s(given))
        record_done(f"the pool `{place.pool}` was scaled to {wanted}")
        _print(found, given)
    return 0


def delete(**given: Any) -> int:
    """0 when all that gofer made is gone; 1 when the person did not type the name."""
    with _session(given) as session:
        place = _place(session, given)
        removal = plan_removal(session, place)
        name = place.cluster.name
        _show_removal(removal, place, given)
        if removal.is_nothing:
            session.emit(Message(f"nothing to do: there is no cluster `{name}` that gofer made"))
            return 0
        if given["dry_run"]:
            return 0
        if not _is_confirmed(name, given["yes"]):
            print_message("nothing was removed")
            return 1
        delete_cluster(session, place, removal, wait_s=parse_duration_s(given["timeout"]))
        record_done(f"the cluster `{name}` was removed")
        session.emit(Message(f"removed `{name}`"))
    return 0


def _session(given: dict[str, Any]) -> Session:
    return Session(target=given["target"], emit=print_nothing if given["quiet"] else print_message)


def _place(session: Session, given: dict[str, Any]) -> ClusterPlace:
    choice = ClusterChoice(
        given["name"], given["subscription_id"], given["resource_group"], given.get("pool")
    )
    return find_place(session, choice)


def _wait_s(given: dict[str, Any]) -> float:
    return 0.0 if given["no_wait"] else parse_duration_s(given["timeout"])


def _print(found: ClusterView, given: dict[str, Any]) -> None:
    if given["as_json"]:
        print_json(found.as_json())
        return
    facts = [
        ("cluster", found.name),
        ("state", found.state),
        ("location", found.location),
        ("resource group", found.group),
        ("subscription", found.subscription),
        ("kubernetes", found.version),
        ("made by", "gofer" if found.is_made else "somebody else"),
    ]
    for one in found.operations:
        elapsed = format_duration(round(time.time() - one.since))
        facts.append(("in progress", f"{one.what} `{one.resource}`: {one.state}, {elapsed}"))
    sys.stdout.write(render_facts(facts))
    cells = [[pool.name, pool.mode, _size(pool), _nodes(pool), pool.state] for pool in found.pools]
    sys.stdout.write(render(_POOLS, cells, fit=screen_width()))


def _size(pool: PoolView) -> str:
    return f"{pool.vm_size} (spot)" if pool.is_spot else pool.vm_size


def _nodes(pool: PoolView) -> str:
    return str(pool.nodes) if pool.most is None else f"{pool.nodes} ({pool.least}:{pool.most})"


def _show_removal(removal: ClusterRemoval, place: ClusterPlace, given: dict[str, Any]) -> None:
    if given["as_json"]:
        work = [one._asdict() for one in removal.work]
        print_json({**removal._asdict(), "name": place.cluster.name, "work": work})
        return
    for is_there, line in (
        (removal.cluster, f"cluster {place.cluster.name}"),
        (bool(removal.pool), f"node pool {removal.pool}"),
        (removal.group, f"resource group {place.cluster.group}"),
    ):
        if is_there:
            sys.stdout.write(f"{line}\n")
    if removal.work:
        cells = [[one.kind, one.name, format_ago(one.age_s)] for one in removal.work]
        sys.stdout.write(render(_WORK, cells, fit=screen_width()))
    sys.stdout.flush()


def _is_confirmed(name: str, given: str | None) -> bool:
    """Whether `--yes` has the name, or the person types it; UsageError for another name, and without both."""
    if given is not None:
        if given != name:
            raise UsageError(f"`--yes {given}` is not the name of the cluster", hint=f"`--yes {name}`")
        return True
    ask = answer_prompt()
    if ask is None:
        raise UsageError(
            f"the cluster `{name}` would be removed, and no terminal can confirm it",
            hint=f"add `--yes {name}`",
        )
    return ask(f"type the name of the cluster to remove it for good ({name}): ") == name


def _target_line(place: ClusterPlace) -> str:
    cluster = place.cluster
    names = f"subscription_id: {cluster.subscription}, resource_group: {cluster.group}"
    aks = f"{names}, cluster: {cluster.name}, pool: {place.pool}"
    return f"`{cluster.name}: {{kind: kubernetes, aks: {{{aks}}}, gpus_per_node: 1, image: python:3.12}}`"


_NAME = click.Argument(["name"], required=False, metavar="[NAME]", shell_complete=offers("targets"))
_KNOWN = "that of the target, or of the cluster of that name"
_TIMEOUT = Option("--timeout", "How long to wait for Azure", default="1h", metavar="TIME")
_NO_WAIT = Flag("--no-wait", "Return as soon as Azure has accepted the change")


def _where() -> list[click.Parameter]:
    """The options that say which cluster is meant."""
    return [
        target_option(
            "The target whose `aks:` names the cluster", default_text="the project's default target"
        ),
        Option("--subscription-id", "The subscription of the cluster", default_text=_KNOWN, metavar="ID"),
        Option("--resource-group", "The resource group", default_text=_KNOWN, metavar="GROUP"),
    ]


def _pool_option() -> Option:
    return Option("--pool", "The node pool for runs", default_text="gpu", metavar="POOL")


create_command = Command(
    "create",
    create,
    [
        _NAME,
        *_where(),
        _pool_option(),
        Option("--location", "The region", required=True, metavar="REGION"),
        Option("--vm-size", "The size of the nodes of the pool", default=DEFAULT_VM_SIZE, metavar="SIZE"),
        Option("--nodes", "Nodes of the pool: `3`, or `1:5` for an autoscaler", default="1", metavar="N"),
        Flag("--spot", "Nodes of spare capacity: cheap, and taken away when others pay"),
        Option(
            "--taint taints",
            "A taint of the nodes: `sku=gpu:NoSchedule`",
            multiple=True,
            metavar="TAINT",
        ),
        Option(
            "--system-vm-size",
            "The size of the node for the cluster's own programs",
            default=DEFAULT_SYSTEM_VM_SIZE,
            metavar="SIZE",
        ),
        Option("--dns-prefix", "The first part of its address", default_text="its name", metavar="PREFIX"),
        Option("--kubernetes-version", "As `1.34`", default_text="Azure's default", metavar="VERSION"),
        _TIMEOUT,
        _NO_WAIT,
        json_option(),
        quiet_option(),
    ],
    help="Make a Kubernetes cluster in Azure, with its resource group if that is missing, and a pool of "
    "nodes for runs. Sizes and quotas are checked first. Repeating the command makes nothing twice: it "
    "continues what was interrupted. NAME is the name of the cluster, or a target whose `aks:` names it.",
)

show_command = Command(
    "show",
    show,
    [
        _NAME,
        *_where(),
        Flag("--wait", "Wait until Azure has done all that was begun"),
        _TIMEOUT,
        json_option(),
        quiet_option(),
    ],
    help="Show a cluster and its node pools, and what Azure works on, also when the command that began it "
    "was killed.",
)

scale_command = Command(
    "scale",
    scale,
    [
        _NAME,
        click.Argument(["size"], required=False, metavar="N"),
        *_where(),
        _pool_option(),
        _TIMEOUT,
        _NO_WAIT,
        json_option(),
        quiet_option(),
    ],
    help="Give a node pool N nodes, or with `1:5` an autoscaler with these bounds. The quota is checked "
    "first. A change that somebody else makes at the same time is waited for.",
)

delete_command = Command(
    "delete",
    delete,
    [
        _NAME,
        *_where(),
        _pool_option(),
        Flag("--dry-run", "Show what would be removed, without removing"),
        Option("--yes", "Do not ask; NAME is the name of the cluster", metavar="NAME"),
        _TIMEOUT,
        json_option("Print what is removed as JSON"),
        quiet_option(),
    ],
    help="Remove a cluster that gofer made, and its resource group when gofer made that too and nothing "
    "else is in it. Shows what runs there and asks for the name; without a terminal it needs `--yes NAME`. "
    "Nothing that somebody else made is removed.",
)
