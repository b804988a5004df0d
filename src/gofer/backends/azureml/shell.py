"""Opens a shell beside a run: finds the ssh endpoint that the service reports, and makes the ssh command."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gofer.backends.azureml.connection import AzureConnection, home
from gofer.backends.azureml.status import from_job, trim
from gofer.backends.base import RunRef
from gofer.core.states import State
from gofer.errors import CheckFailed
from gofer.text import quote_command
from gofer.transport.azure.profile import differing

Json = Mapping[str, Any]
_USER = "azureuser"
_CONNECT_S = 5.0
_KINDS = ("ssh-", "ecdsa-", "sk-")
_KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")


def shell_command(
    connection: AzureConnection, run: RunRef, command: Sequence[str], *, terminal: bool, node: int | None
) -> list[str]:
    """The ssh command line for a node of a running run. CheckFailed when there is no shell to open."""
    service, options = connection.service, connection.options
    job = service.job(run.id)
    state = "not known to the service" if job is None else from_job(run.id, trim(job)).state
    if job is None or state != State.RUNNING:
        raise CheckFailed(
            f"{run.id} is {state}, but a shell needs a run that is running", hint=f"`gofer why {run.id}`"
        )
    endpoint = find_ssh_endpoint(job if not node else {}, service.instances(run.id, node or 0))
    if endpoint is None and not node and options.platform == "aml":
        # The list of nodes comes last, because it takes another request.
        endpoint = find_ssh_endpoint(job, nodes=service.nodes(options.compute or ""))
    if endpoint is None:
        raise _no_endpoint(connection, run.id, job, node)
    if not endpoint.bridge:
        _check_open(endpoint, run.id)
    login = differing(connection.environ, os.environ)
    here = SshClientFiles(private_key(options.ssh_public_key, home()), connection.azure_folder, login)
    return words(endpoint, run.id, command, here, terminal=terminal)


def _check_open(endpoint: SshEndpoint, run_id: str) -> None:
    """CheckFailed when the address refuses a connection. Anything else is left to ssh, which may know another
    way.
    """
    address = (endpoint.host, endpoint.port or 22)
    try:
        socket.create_connection(address, timeout=_CONNECT_S).close()
    except ConnectionRefusedError:
        raise CheckFailed(
            f"nothing listens at {address[0]}:{address[1]}, the SSH address of the node of {run_id}",
            hint="try again in a minute; `interactive: true` of the target gives its runs an SSH server",
        ) from None
    except OSError:
        pass


def _no_endpoint(connection: AzureConnection, run_id: str, job: Json, node: int | None) -> CheckFailed:
    if node:
        return CheckFailed(
            f"the service has opened no shell on node {node} of {run_id}",
            hint="try again in a minute; without `--node` the shell opens on the first node",
        )
    properties = job.get("properties") or {}
    if "ssh" in (properties.get("services") or {}) or _is_interactive(properties):
        return CheckFailed(
            f"the service has not opened a shell for {run_id} yet", hint="try again in a minute"
        )
    return CheckFailed(
        f"{run_id} was submitted without access to a shell",
        hint=f"`interactive: true` of the target `{connection.target}` gives its runs one; "
        "`gofer submit ssh` asks for one by itself",
    )


def _is_interactive(properties: Json) -> bool:
    """Whether a job on Singularity was submitted with access to a shell."""
    words = (properties.get("resources") or {}).get("properties") or {}
    return bool((words.get("AISuperComputer") or {}).get("interactive"))


class SshEndpoint(NamedTuple):
    """An ssh endpoint. `bridge` is the address of a WebSocket that leads to it, where there is one."""

    host: str
    port: int | None = None
    user: str = _USER
    bridge: str | None = None


def find_ssh_endpoint(
    job: Json, instances: Json | None = None, nodes: Iterable[Json] = ()
) -> SshEndpoint | None:
    """The endpoint from the job's tag, its services, or the node that it runs on; None when there is none.

    `instances` are the job's services as the run history reports them, which is where the official tools
    look.
    """
    properties = job.get("properties") or {}
    tagged = (properties.get("tags") or {}).get("ssh")
    services = [*(instances or {}).values(), *(properties.get("services") or {}).values()]
    for end in [str(tagged or ""), *(_end(service) for service in services if isinstance(service, Mapping))]:
        parts = urlsplit(end)
        if parts.scheme == "ssh" and parts.hostname:
            return SshEndpoint(parts.hostname, parts.port, parts.username or _USER)
        if parts.scheme in ("ws", "wss") and parts.hostname:
            return SshEndpoint(parts.hostname, None, parts.username or _USER, end)
    for node in nodes:
        if node.get("runId") == job.get("name") and node.get("publicIpAddress"):
            # Nodes of a compute share one public address and differ by port.
            port = node.get("port")
            return SshEndpoint(str(node["publicIpAddress"]), int(port) if port else None)
    return None


def _end(service: Json) -> str:
    """The address of a service of kind SSH, or empty."""
    if str(service.get("type") or service.get("jobServiceType")).upper() != "SSH":
        return ""
    return str((service.get("properties") or {}).get("ProxyEndpoint") or service.get("endpoint") or "")


class SshClientFiles(NamedTuple):
    """What ssh needs on this machine: the file of the private key, the folder that gofer keeps for Azure, and
    the variables that name the target's login where the environment of the process does not.
    """

    key: str | None
    folder: str
    login: Mapping[str, str] = MappingProxyType({})


def words(
    endpoint: SshEndpoint, run_id: str, command: Sequence[str], here: SshClientFiles, *, terminal: bool
) -> list[str]:
    """The ssh command line. The bridge reads its token itself, so the token is on no command line.

    Nodes come and go behind the same addresses, and a run can move from node to node. So a host key is
    remembered for one run at one address. Behind a bridge the host key is not checked: TLS proves the host.
    """
    key, folder, login = here
    options = [f"UserKnownHostsFile={os.path.join(folder, 'known_hosts')}"]
    options += [
        "StrictHostKeyChecking=accept-new",
        f"HostKeyAlias={run_id}-{endpoint.host}-{endpoint.port or 22}",
    ]
    if endpoint.bridge:
        options = ["UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", "LogLevel=ERROR"]
    found = ["ssh", *(word for option in [*options, "ServerAliveInterval=30"] for word in ("-o", option))]
    # -T: without a terminal here, a pseudo-terminal there would change the bytes of the output.
    found += ["-t"] if terminal else ["-T"]
    if key:
        found += ["-i", key]
    if endpoint.bridge:
        argv = ["env", *(f"{name}={value}" for name, value in login.items())] if login else []
        argv += [sys.executable, "-m", "gofer.transport.azure.bridge", endpoint.bridge, folder]
        # ssh expands `%` in a ProxyCommand.
        found += ["-o", f"ProxyCommand={quote_command(argv).replace('%', '%%')}"]
    if endpoint.port:
        found += ["-p", str(endpoint.port)]
    return [*found, "--", f"{endpoint.user}@{endpoint.host}", *([quote_command(command)] if command else [])]


def public_key(named: str | None, home: str) -> str:
    """The text of the public key for shells; CheckFailed when no key file can be read."""
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
        hint="`ssh-keygen -t ed25519` makes one, or name one as `ssh_public_key:` of the target",
    )


def private_key(named: str | None, home: str) -> str | None:
    """The file of the private key; None when the target gives the public key as text, so that ssh must find
    it.
    """
    if named and named.startswith(_KINDS):
        return None
    public = next((path for path in _public_files(named, home) if named or os.path.exists(path)), "")
    path = public.removesuffix(".pub")
    return path if os.path.exists(path) else None


def _public_files(named: str | None, home: str) -> list[str]:
    return [os.path.expanduser(named)] if named else [os.path.join(home, ".ssh", name) for name in _KEYS]
