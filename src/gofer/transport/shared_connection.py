"""SSH connections that stay open between commands, so that a command needs one round trip and no login.

Each host has one connection, with a socket in a folder of this user. The first command opens it, and it ends
a minute after its last use. A machine that asks for a password or a code needs a person: `keep_open` asks on
the terminal and keeps the connection for hours. Where the person's own settings share connections
(`ControlMaster` in ~/.ssh/config) and one is open, gofer uses it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from gofer.core import private_folder
from gofer.core.files import write_whole
from gofer.errors import CheckFailed, GoferError, Unreachable
from gofer.model.decode import decode
from gofer.text import quote_command
from gofer.transport import process
from gofer.transport.ssh_errors import BEHIND_ANOTHER, explain
from gofer.transport.ssh_route import Route, find_route

_CONNECT_S = 20
# How long a connection that nobody opened by `gofer login` stays open, for the next command.
_SHORT_S = 60
# `ssh -O` asks a process of this machine.
_CONTROL_S = 5.0
# A person may need time for a second factor.
_LOGIN_S = 1200.0
# The path of a socket has at most 107 bytes. The name takes 40, and ssh adds 17 while it connects.
_LONGEST_RUNTIME = 40
# Runs a command that neither Ctrl-C nor the end of this terminal reaches: `ssh` leaves the terminal, but not
# the `ssh` to a jump host that it started before. macOS has no `setsid`.
_OWN_SESSION = (sys.executable, "-Ic", "import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])")


class ConnectionRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is written down of a connection that a person opened. The time of the file is its last use."""

    host: str
    target: str
    opened_at: float
    keep_s: float


class OpenConnection(NamedTuple):
    """An open connection: one of `gofer login`, or the person's own (`is_own`), of which no times are known.

    `until` is when it ends unless it is used again; None while a command uses it.
    """

    host: str
    target: str = ""
    is_own: bool = False
    opened_at: float | None = None
    keep_s: float | None = None
    until: float | None = None


def sockets_folder(environ: Mapping[str, str]) -> Path:
    """The folder for the sockets of shared connections: accessible to this user only, with a short path.

    Raises CheckFailed when another user has made a folder of that name.
    """
    # A program that cron starts does not know the variable, and looks for the same connections.
    runtime = environ.get("XDG_RUNTIME_DIR", "") or f"/run/user/{os.getuid()}"
    if os.access(runtime, os.W_OK) and len(runtime) <= _LONGEST_RUNTIME:
        folder = Path(runtime) / "gofer"
    else:
        folder = Path(f"/tmp/gofer-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    held = folder.lstat()
    if held.st_uid != os.getuid() or held.st_mode & 0o077 or not stat.S_ISDIR(held.st_mode):
        raise CheckFailed(
            f"{folder} can be used by other users", hint="set `XDG_RUNTIME_DIR` to a private folder"
        )
    return folder


def ssh_argv(host: str, sockets: Path) -> list[str]:
    """The `ssh` command of gofer: it never asks questions on a terminal, and it shares connections.

    Blocks for some milliseconds, because it asks `ssh` for the way and for open connections.
    """
    return ["ssh", "-T", *_words(_options_to(host, sockets)), "--", host]


def _options_to(host: str, sockets: Path, via: str = "", *, is_jump: bool = False) -> dict[str, str]:
    """The options that lead to the host without a question. `is_jump`: on the way to another host."""
    options = {
        # A question for a password would wait for ever, since nobody sees it.
        "BatchMode": "yes",
        "ConnectTimeout": str(_CONNECT_S),
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "3",
    }
    route = find_route(host, via)
    # The person's own connection has passed every question, so it is used as it is.
    if route.shares and _is_own_open(host):
        return options | {"ControlMaster": "no"}
    note_use(host, sockets)
    options |= {
        # A connection of a minute to a jump host would keep open the pipe to the `ssh` that needs it.
        "ControlMaster": "no" if is_jump else "auto",
        "ControlPersist": str(_SHORT_S),
        "ControlPath": f"{sockets}/%C",
    }
    return options | _through(route, sockets)


def _through(route: Route, sockets: Path, *, before: Sequence[str] = ()) -> dict[str, str]:
    """The option for a host behind others. The `ssh` to a jump host would ask questions, and would not know
    the connection of `gofer login`, unless it got gofer's options too. `before` comes before its command.
    """
    if not route.jumps:
        return {}
    *others, last = route.jumps
    options = _options_to(last, sockets, ",".join(others), is_jump=True)
    argv = [word.replace("%", "%%") for word in (*before, "ssh", *_words(options))]
    return {"ProxyCommand": quote_command([*argv, "-W", "[%h]:%p", "--", last])}


def explain_failure(
    host: str, status: int, complaints: str, *, sockets: Path, target: str = ""
) -> Unreachable:
    """The error for an `ssh` of gofer that ended without an answer: see `explain`.

    `ssh` tells nothing of jump hosts on the way. They are then asked one by one, which blocks.
    """
    jumps = find_route(host).jumps if BEHIND_ANOTHER in complaints else ()
    for index, jump in enumerate(jumps):
        options = _options_to(jump, sockets, ",".join(jumps[:index]))
        try:
            _run_quietly(["ssh", *_words(options), "--", jump, "true"], jump, target)
        except Unreachable as error:
            words = f"{host} cannot be reached: its jump host {error.message}"
            return type(error)(words, hint=error.hint)
    return explain(host, status, complaints, target)


def quiet_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for an `ssh` in the background: the `ssh` of a jump host opens no window either."""
    return {**environ, "SSH_ASKPASS_REQUIRE": "never"}


def keep_open(
    host: str, sockets: Path, *, via: str = "", target: str, keep_s: float, asks: bool
) -> OpenConnection:
    """Open the connection that all later commands share, unless one is open. Blocks.

    `ssh` asks on the terminal for what the host needs, or asks nothing without `asks`; jump hosts on the way
    are never asked for anything, so connections to them are opened before. The connection ends `keep_s`
    seconds after its last use. Unreachable when `ssh` does not log in; without `asks`, LoginNeeded when
    `ssh` would have asked.
    """
    found = find_open(host, sockets)
    if found is not None:
        return found
    private_folder.make_missing(sockets)
    _control(
        "stop", host, sockets
    )  # a connection of `_SHORT_S`: commands that use it continue, new ones do not
    options = {
        "BatchMode": "no" if asks else "yes",
        "ConnectTimeout": str(_CONNECT_S),
        # A laptop that loses its network for some minutes keeps the connection.
        "ServerAliveInterval": "30",
        "ServerAliveCountMax": "10",
        "ControlMaster": "yes",
        "ControlPersist": str(int(keep_s)),
        "ControlPath": f"{sockets}/%C",
        # The person's own forwarded ports belong to the person's own connections.
        "ClearAllForwardings": "yes",
        **_through(find_route(host, via), sockets, before=_OWN_SESSION),
    }
    argv = ["ssh", "-f", "-N", *_words(options), "--", host]
    if asks:
        _ask_on_terminal(argv, host)
    else:
        _run_quietly(argv, host, target)
    # The answer also says that the process in the background has left this terminal.
    if not _control("check", host, sockets):
        raise Unreachable(
            f"{host} closed the connection right after the login", hint=f"try `ssh {host} true`"
        )
    record = ConnectionRecord(host, target, time.time(), keep_s)
    path = _record_path(host, sockets)
    write_whole(str(path), msgspec.json.encode(record), mode=0o600)
    return _connection(record, path.stat().st_mtime)


def close(host: str, sockets: Path) -> bool:
    """End the connection that gofer has to the host, with the commands that use it; whether there was one."""
    _record_path(host, sockets).unlink(missing_ok=True)
    return _control("exit", host, sockets)


def find_open(host: str, sockets: Path) -> OpenConnection | None:
    """The person's own connection to the host, or the one of `gofer login`; None when neither is open."""
    if find_route(host).shares and _is_own_open(host):
        return OpenConnection(host, is_own=True)
    return _find_kept(_record_path(host, sockets), sockets)


def list_kept(sockets: Path) -> list[OpenConnection]:
    """The open connections of `gofer login`, by host. Forgets those that have ended."""
    found = (_find_kept(path, sockets) for path in sockets.glob("*.json"))
    return sorted((one for one in found if one is not None), key=lambda one: one.host)


def note_use(host: str, sockets: Path) -> None:
    """A connection of `gofer login` is used now, and so lasts longer."""
    with suppress(OSError):
        os.utime(_record_path(host, sockets))


def _find_kept(path: Path, sockets: Path) -> OpenConnection | None:
    try:
        record, used = decode(path.read_bytes(), ConnectionRecord), path.stat().st_mtime
    except OSError:
        return None
    if record is None or not _control("check", record.host, sockets):
        path.unlink(missing_ok=True)
        return None
    return _connection(record, used)


def _connection(record: ConnectionRecord, used: float) -> OpenConnection:
    until = used + record.keep_s
    return OpenConnection(
        record.host,
        record.target,
        opened_at=record.opened_at,
        keep_s=record.keep_s,
        until=until if until > time.time() else None,
    )


def _record_path(host: str, sockets: Path) -> Path:
    return sockets / f"{hashlib.sha256(host.encode()).hexdigest()[:32]}.json"


def _ask_on_terminal(argv: Sequence[str], host: str) -> None:
    status = process.attend(argv, timeout_s=_LOGIN_S)
    if status:
        raise Unreachable(f"no connection to {host} was opened", hint=f"`ssh -v {host} true` says more")


def _run_quietly(argv: Sequence[str], host: str, target: str) -> None:
    """Run an `ssh` that asks nothing; Unreachable when it fails."""
    # Files, because the connection that stays in the background would keep a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        quiet = quiet_environment(os.environ)
        status = process.run_into(argv, out, complaints, timeout_s=_LOGIN_S, env=quiet)
        complaints.seek(0)
        if status:
            raise explain(host, status, complaints.read(1 << 16).decode("utf-8", "replace"), target)


def _control(verb: str, host: str, sockets: Path) -> bool:
    """Whether the connection of gofer to the host carried out `ssh -O VERB`."""
    # The name of a socket may depend on ProxyJump, which no connection of gofer has.
    options = {"ControlPath": f"{sockets}/%C", "ProxyCommand": "none"}
    return _succeeds(["ssh", "-O", verb, *_words(options), "--", host])


def _is_own_open(host: str) -> bool:
    """Whether the person's own settings share connections, and one to the host is open."""
    return _succeeds(["ssh", "-O", "check", "--", host])


def _succeeds(argv: Sequence[str]) -> bool:
    try:
        return process.run(argv, timeout_s=_CONTROL_S).status == 0
    except GoferError:  # there is no `ssh`, or the process that holds the connection hangs
        return False


def _words(options: Mapping[str, str]) -> list[str]:
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
