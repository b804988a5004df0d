"""Logins on machines over SSH: `gofer login` and `logout` of a target over SSH, and `gofer list logins`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

from gofer.cli.options import Command, json_option
from gofer.cli.output.json_output import print_json
from gofer.cli.output.screen import print_message
from gofer.cli.output.table import Column, render, screen_width
from gofer.cli.output.theme import has_colours
from gofer.errors import Unreachable
from gofer.ops.accounts.machine_logins import (
    USUAL_KEEP,
    chosen_machines,
    find_login,
    keep_s_of,
    list_logins,
    log_in,
    log_out,
    machines_to_leave,
    on_the_way,
)
from gofer.ops.session import Session
from gofer.text import format_duration, format_local_time, format_time
from gofer.transport.ssh_errors import logout_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.accounts.machine_logins import LoginMachine
    from gofer.transport.shared_connection import OpenConnection

_COLUMNS = [Column("TARGET"), Column("HOST", flexible=True), Column("OPENED BY"), Column("ENDS")]


def log_in_machines(
    session: Session, target: str | None, host: str | None, *, keep: str | None, as_json: bool
) -> int:
    """The open connections as JSON with `--json`; errors as in `log_in_on`."""
    opened = log_in_on(session, chosen_machines(session, target, host), keep_s_of(keep or USUAL_KEEP))
    if as_json:
        print_json([_plain(one) for one in opened])
    return 0


def log_in_on(session: Session, machines: Sequence[LoginMachine], keep_s: float) -> list[OpenConnection]:
    """Log in on the machines, and before on the jump hosts on the way; the open connections. Tries every
    machine that is not behind one that failed, and then raises the first Unreachable.
    """
    problems: dict[str, Unreachable] = {}
    opened: list[OpenConnection] = []
    for machine in on_the_way(session, machines):
        try:
            if not problems.keys() & machine.jumps:
                opened.append(_log_in(session, machine, keep_s))
        except Unreachable as error:
            problems[machine.host] = error
    first, *others = problems.values() or [None]
    for other in others:
        print_message(f"error: {other}")
    if first is not None:
        raise first
    return opened


def _log_in(session: Session, machine: LoginMachine, keep_s: float) -> OpenConnection:
    """Log in and say so; `ssh` asks its questions where a person can answer them."""
    found, is_new = log_in(session, machine, keep_s, asks=sys.stdin.isatty() and sys.stderr.isatty())
    if found.is_own:
        print_message(f"{machine.host}: a connection of your own `ssh` is open, and gofer uses it")
        return found._replace(target=machine.target)
    what = "logged in" if is_new else "you are logged in already"
    end = logout_command(machine.host, machine.target)
    kept = f"the connection stays open for {format_duration(found.keep_s)} after its last use"
    print_message(f"{machine.host}: {what}; {kept}, and `{end}` closes it now")
    return found


def log_out_machines(session: Session, target: str | None, host: str | None, *, as_json: bool) -> int:
    """Which connections were closed, as JSON with `--json`."""
    rows = []
    for machine in machines_to_leave(session, target, host):
        was_open = log_out(session, machine)
        rows.append({"host": machine.host, "target": machine.target or None, "closed": was_open})
        print_message(f"{machine.host}: {'logged out' if was_open else 'no connection was open'}")
        own = find_login(session, machine.host)
        if own is not None and own.is_own:
            end = f"`ssh -O exit {machine.host}` closes it"
            print_message(f"{machine.host}: a connection of your own `ssh` stays open; {end}")
    if as_json:
        print_json(rows)
    return 0


class _Options(TypedDict):
    as_json: bool


def list_connections(**given: Unpack[_Options]) -> int:
    """A line, or a JSON object, for every open connection."""
    with Session() as session:
        found = list_logins(session)
    if given["as_json"]:
        print_json([_plain(one) for one in found])
        return 0
    if not found:
        print_message("no connection is open; `gofer login TARGET` opens one")
        return 0
    cells = [[one.target or "-", one.host, _opener(one), _end(one)] for one in found]
    sys.stdout.write(render(_COLUMNS, cells, fit=screen_width(), colour=has_colours(sys.stdout)))
    return 0


def _opener(one: OpenConnection) -> str:
    return "ssh" if one.is_own else "gofer login"


def _end(one: OpenConnection) -> str:
    if one.is_own:
        return "as your ssh says"
    return format_local_time(one.until) if one.until else "in use"


def _plain(one: OpenConnection) -> dict[str, object]:
    return {
        "host": one.host,
        "target": one.target or None,
        "opened_by": _opener(one),
        "opened_at": format_time(one.opened_at),
        "until": format_time(one.until),
    }


list_command = Command(
    "logins",
    list_connections,
    [json_option("Print a JSON array")],
    help="List the open SSH connections of `gofer login`, and when each ends unless a command uses it again. "
    "Open connections of your own `ssh` (ControlMaster) to the machines of your targets are listed too.",
)
