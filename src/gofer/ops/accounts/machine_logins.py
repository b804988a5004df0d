"""Logins on machines over SSH: connections that a person opens on a terminal and that later commands use."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends import registry
from gofer.errors import GoferError, UsageError
from gofer.text import parse_duration_s
from gofer.transport import shared_connection
from gofer.transport.shared_connection import OpenConnection, sockets_folder
from gofer.transport.ssh_route import find_route

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gofer.ops.session import Session

# A working day; the time begins again with each use of the connection.
USUAL_KEEP = "12h"
_SHORTEST_S = 60.0
_LONGEST_S = 30 * 86400.0


class LoginMachine(NamedTuple):
    """A machine to log in to: its host for ssh, the target that has it, if a target was named, and the jump
    hosts on the way to it, as far as they were asked for.
    """

    host: str
    target: str = ""
    jumps: tuple[str, ...] = ()


def is_azure(session: Session, target: str) -> bool:
    """Whether a login to the target is one to Azure; UnknownName when there is no such target."""
    return registry.find(session.settings.target(target).kind).uses_azure_login


def machines_of(session: Session, target: str) -> list[LoginMachine]:
    """The machines that gofer logs in to for a target; none for a target on this machine."""
    found = session.settings.target(target)
    login = registry.find(found.kind).login(found.options, "")
    hosts = registry.capabilities_of(found).machines or ((login.host,) if login else ())
    return [LoginMachine(host, target) for host in hosts]


def chosen_machines(session: Session, target: str | None, host: str | None) -> list[LoginMachine]:
    """The machines of `target`, or the one that `host` names. UsageError when the target has none."""
    if host is not None:
        return [LoginMachine(host)]
    assert target is not None
    machines = machines_of(session, target)
    if not machines:
        raise UsageError(
            f"the target `{target}` needs no login: its runs start from this machine",
            hint="`gofer target list` shows the targets; a login is for the kinds ssh, slurm and azureml",
        )
    return machines


def on_the_way(session: Session, machines: Sequence[LoginMachine]) -> list[LoginMachine]:
    """The machines, each after the jump hosts on the way to it. Asks `ssh` for the ways; connects nowhere."""
    found: dict[str, LoginMachine] = {}
    for machine in machines:
        for one in _way_to(machine, sockets_folder(session.environ)):
            found.setdefault(one.host, one)
    return list(found.values())


def _way_to(machine: LoginMachine, sockets: Path) -> list[LoginMachine]:
    """The jump hosts on the way to a machine, and the machine; no jump hosts where a connection is open."""
    jumps = find_route(machine.host, ",".join(machine.jumps)).jumps
    if not jumps or shared_connection.find_open(machine.host, sockets):
        return [machine]
    first, *others = [LoginMachine(jump, machine.target, jumps[:index]) for index, jump in enumerate(jumps)]
    # The first of them may have jump hosts of its own; the others are reached through it.
    return [*_way_to(first, sockets), *others, machine._replace(jumps=jumps)]


def keep_s_of(text: str) -> float:
    """The seconds of `--keep`; UsageError for no duration, and for one that no connection lasts."""
    keep_s = parse_duration_s(text)
    if not _SHORTEST_S <= keep_s <= _LONGEST_S:
        raise UsageError(
            f"a connection cannot be kept for {text}",
            hint=f"from a minute to 30 days: `--keep {USUAL_KEEP}`",
        )
    return keep_s


def log_in(
    session: Session, machine: LoginMachine, keep_s: float, *, asks: bool
) -> tuple[OpenConnection, bool]:
    """Open the connection to the machine, and whether it is new. Blocks while `ssh` asks on the terminal;
    without `asks` it asks nothing. Unreachable when ssh does not log in.
    """
    sockets = sockets_folder(session.environ)
    found = shared_connection.find_open(machine.host, sockets)
    if found is not None:
        return found, False
    opened = shared_connection.keep_open(
        machine.host,
        sockets,
        via=",".join(machine.jumps),
        target=machine.target,
        keep_s=keep_s,
        asks=asks,
    )
    return opened, True


def machines_to_leave(session: Session, target: str | None, host: str | None) -> list[LoginMachine]:
    """The chosen machines, and the jump hosts to which `gofer login` of the same target connected."""
    machines = chosen_machines(session, target, host)
    known = {machine.host for machine in machines}
    kept = shared_connection.list_kept(sockets_folder(session.environ))
    others = [one.host for one in kept if target and one.target == target and one.host not in known]
    return machines + [LoginMachine(other, target or "") for other in others]


def log_out(session: Session, machine: LoginMachine) -> bool:
    """Close gofer's connection to the machine, and whether there was one. The person's own stays."""
    return shared_connection.close(machine.host, sockets_folder(session.environ))


def find_login(session: Session, host: str) -> OpenConnection | None:
    """The open connection to a host that a person opened."""
    return shared_connection.find_open(host, sockets_folder(session.environ))


def list_logins(session: Session) -> list[OpenConnection]:
    """The connections that are open: those of `gofer login`, and the person's own to machines of targets."""
    kept = shared_connection.list_kept(sockets_folder(session.environ))
    known = {one.host for one in kept}
    machines: dict[str, LoginMachine] = {}
    for name in session.settings.target_names:
        with suppress(GoferError):  # a target with an error is left out
            for machine in machines_of(session, name):
                machines.setdefault(machine.host, machine)
    found = [find_login(session, host) for host in machines if host not in known]
    own = [one._replace(target=machines[one.host].target) for one in found if one is not None]
    return kept + own
