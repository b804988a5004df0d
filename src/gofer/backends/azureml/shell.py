"""How a shell beside a run is opened: where the service says that its ssh listens."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gofer.errors import CheckFailed
from gofer.text import quote_command

Json = Mapping[str, Any]
_USER = "azureuser"
_KINDS = ("ssh-", "ecdsa-", "sk-")
_KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")


class Door(NamedTuple):
    """Where ssh goes; `bridge` is the address of a WebSocket that leads there."""

    host: str
    port: int | None = None
    user: str = _USER
    bridge: str | None = None


def find_door(job: Json, instances: Json | None = None, nodes: Iterable[Json] = ()) -> Door | None:
    """By the job's tag, its services, or the node that it runs on; None when there is none.

    `instances` are its services as the run history knows them, where the official tools look.
    """
    said = job.get("properties") or {}
    tagged = (said.get("tags") or {}).get("ssh")
    services = [*(instances or {}).values(), *(said.get("services") or {}).values()]
    for end in [str(tagged or ""), *(_end(one) for one in services if isinstance(one, Mapping))]:
        parts = urlsplit(end)
        if parts.scheme == "ssh" and parts.hostname:
            return Door(parts.hostname, parts.port, parts.username or _USER)
        if parts.scheme in ("ws", "wss") and parts.hostname:
            return Door(parts.hostname, None, parts.username or _USER, end)
    for node in nodes:
        if node.get("runId") == job.get("name") and node.get("publicIpAddress"):
            port = node.get("port")
            return Door(str(node["publicIpAddress"]), int(port) if port else None)
    return None


def _end(service: Json) -> str:
    """Where a service of the kind ssh is reached, as far as it says it; empty for another."""
    if str(service.get("type") or service.get("jobServiceType")).upper() != "SSH":
        return ""
    return str((service.get("properties") or {}).get("ProxyEndpoint") or service.get("endpoint") or "")


class SshClientFiles(NamedTuple):
    """What ssh is told of this side: the file of the key, the folder that gofer keeps for Azure, and the
    variables that name the target's login where the environment of the process does not.
    """

    key: str | None
    folder: str
    login: Mapping[str, str] = MappingProxyType({})


def words(
    door: Door, run_id: str, command: Sequence[str], here: SshClientFiles, *, terminal: bool
) -> list[str]:
    """For ssh here. The token for a bridge is read by the bridge itself, and stands on no command line.

    Nodes come and go behind the same addresses, and a run may go from node to node: a host's key is that of
    one run at one address. Behind a bridge it is not looked at: there TLS says who answers.
    """
    key, folder, login = here
    options = [f"UserKnownHostsFile={os.path.join(folder, 'known_hosts')}"]
    options += ["StrictHostKeyChecking=accept-new", f"HostKeyAlias={run_id}-{door.host}-{door.port or 22}"]
    if door.bridge:
        options = ["UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", "LogLevel=ERROR"]
    found = ["ssh", *(word for one in [*options, "ServerAliveInterval=30"] for word in ("-o", one))]
    found += ["-t"] if terminal else ["-T"]
    if key:
        found += ["-i", key]
    if door.bridge:
        argv = ["env", *(f"{name}={value}" for name, value in login.items())] if login else []
        argv += [sys.executable, "-m", "gofer.transport.azure.bridge", door.bridge, folder]
        found += ["-o", f"ProxyCommand={quote_command(argv).replace('%', '%%')}"]
    if door.port:
        found += ["-p", str(door.port)]
    return [*found, "--", f"{door.user}@{door.host}", *([quote_command(command)] if command else [])]


def public_key(named: str | None, home: str) -> str:
    """The text of the key that may open shells; CheckFailed when there is none."""
    if named and named.startswith(_KINDS):
        return named.strip()
    paths = _public_files(named, home)
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError):
            continue
    raise CheckFailed(
        f"there is no public key for shells in runs: {', '.join(paths)}",
        hint="`ssh-keygen -t ed25519` makes one, or leave `interactive` out of the target",
    )


def private_key(named: str | None, home: str) -> str | None:
    """The file that goes with it; None where the key was given as text, and ssh must find its other half."""
    if named and named.startswith(_KINDS):
        return None
    public = next((path for path in _public_files(named, home) if named or os.path.exists(path)), "")
    path = public.removesuffix(".pub")
    return path if os.path.exists(path) else None


def _public_files(named: str | None, home: str) -> list[str]:
    return [os.path.expanduser(named)] if named else [os.path.join(home, ".ssh", name) for name in _KEYS]
