"""Which cluster a command means, and the way to it.

A cluster is named by a target whose settings have `aks:`, by its own name when gofer made it from this
machine, or by its subscription and resource group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.redact import remember
from gofer.config.yaml.nodes import Scalar, table
from gofer.errors import UsageError
from gofer.ops.clusters.cluster_notes import ClusterNote, ClusterNotes
from gofer.ops.clusters.cluster_plan import DEFAULT_POOL
from gofer.text import did_you_mean
from gofer.transport.azure.managed_cluster import ClusterName, ClusterService, connect

if TYPE_CHECKING:
    from gofer.config.settings import Settings
    from gofer.ops.session import Session

# Keys of `aks:` in a target, by the part of a cluster's name that they give.
_KEYS = {"subscription": "subscription_id", "group": "resource_group", "name": "cluster", "pool": "pool"}
_OPTIONS = {"name": "NAME", "group": "--resource-group", "subscription": "--subscription-id"}


class ClusterChoice(NamedTuple):
    """The words of a person; None where nothing was said."""

    name: str | None = None
    subscription: str | None = None
    group: str | None = None
    pool: str | None = None


class ClusterPlace(NamedTuple):
    """A cluster, its pool for work, and the Azure login that reaches it."""

    cluster: ClusterName
    pool: str
    profile: str | None
    target: str | None


def find_place(session: Session, choice: ClusterChoice) -> ClusterPlace:
    """The cluster that is meant. Asks no service. UsageError when its subscription or group is not known."""
    target = _target_of(session, choice.name)
    known = _aks_of(session.settings, target) if target else {}
    note = None if target else _note_of(session, choice)
    if note is not None:
        known = {"subscription": note.subscription, "group": note.group, "name": note.name}
        known |= {"pool": note.pool} if note.pool else {}
    named = None if target == choice.name else choice.name
    parts = {
        **known,
        **{key: value for key, value in choice._asdict().items() if value and key != "name"},
        **({"name": named} if named else {}),
    }
    for key, option in _OPTIONS.items():
        if not parts.get(key):
            _refuse(session, choice, option)
    profile = note.profile if note else _profile_of(session.settings, target)
    cluster = ClusterName(parts["subscription"], parts["group"], parts["name"])
    return ClusterPlace(cluster, parts.get("pool") or DEFAULT_POOL, profile, target)


def service_of(session: Session, place: ClusterPlace) -> ClusterService:
    """The client of the cluster's service. Nothing is sent before its first call."""
    return ClusterService(connect(environ_of(session, place), str(session.paths.queue_home), remember))


def environ_of(session: Session, place: ClusterPlace) -> Mapping[str, str]:
    """The environment of the Azure login that reaches the cluster."""
    owner = f"the target `{place.target}`" if place.target else f"the cluster `{place.cluster.name}`"
    return session.azure_environ(owner, place.profile)


def targets_of(session: Session, cluster: ClusterName) -> list[str]:
    """The targets of this project that run on the cluster."""
    settings = session.settings
    found = {name: _aks_of(settings, name) for name in settings.target_names}
    keys = ("subscription", "group", "name")
    wanted = tuple(part.lower() for part in cluster)
    return [name for name, aks in found.items() if tuple(aks.get(key, "").lower() for key in keys) == wanted]


def _target_of(session: Session, name: str | None) -> str | None:
    """The target that the word names, else without a word the target of the command line or the default."""
    settings = session.settings
    if name is not None:
        return name if name in settings.target_names and _aks_of(settings, name) else None
    chosen = settings.choose_target(session.target)
    if chosen in settings.target_names and _aks_of(settings, chosen):
        return chosen
    if session.target:
        raise UsageError(
            f"the target `{session.target}` names no AKS cluster",
            hint="give it `aks: {subscription_id: …, resource_group: …, cluster: …}`",
        )
    return None


def _aks_of(settings: Settings, target: str) -> dict[str, str]:
    node = table(table(settings.target_node(target)).get("aks"))
    found = {key: node.get(word) for key, word in _KEYS.items()}
    return {key: settings.resolve(one.text) for key, one in found.items() if isinstance(one, Scalar)}


def _profile_of(settings: Settings, target: str | None) -> str | None:
    node = table(settings.target_node(target)).get("profile") if target else None
    return node.text if isinstance(node, Scalar) else None


def _note_of(session: Session, choice: ClusterChoice) -> ClusterNote | None:
    if choice.subscription and choice.group:
        wanted = ClusterName(choice.subscription, choice.group, choice.name or "")
        return ClusterNotes(session.paths.queue_home).find(wanted)
    found = [
        note
        for note in ClusterNotes(session.paths.queue_home).all()
        if choice.name in (None, note.name)
        and choice.group in (None, note.group)
        and choice.subscription in (None, note.subscription)
    ]
    return found[0] if len(found) == 1 else None


def _refuse(session: Session, choice: ClusterChoice, option: str) -> None:
    notes = ClusterNotes(session.paths.queue_home).all()
    names = sorted({note.name for note in notes})
    if choice.name is None:
        shown = ", ".join(f"`{name}`" for name in names)
        known = f"gofer made {shown}" if names else "none was made from this machine"
        raise UsageError(f"no cluster is named; {known}", hint="`gofer cluster show NAME`")
    same = [note for note in notes if note.name == choice.name]
    if len(same) > 1:
        groups = ", ".join(f"`{note.group}`" for note in same)
        raise UsageError(
            f"several clusters are called `{choice.name}`, in the resource groups {groups}",
            hint="add `--resource-group GROUP`",
        )
    raise UsageError(
        f"nothing says where the cluster `{choice.name}` is",
        hint=did_you_mean(choice.name, names) or f"add `{option} …`, or `aks:` to a target",
    )
