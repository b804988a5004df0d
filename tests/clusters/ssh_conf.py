"""The files of SSH servers and of the client that reaches them, as text. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SSH_PORT = 22
# In front of `sshd_conf`: of two lines with one key, sshd takes the first.
ASKING = """\
UsePAM yes
KbdInteractiveAuthentication yes
AuthenticationMethods publickey,keyboard-interactive
PermitRootLogin yes
"""


@dataclass(frozen=True)
class Noise:
    """What a login says before it comes to the point, and how long it takes."""

    banner: str = ""
    stdout: str = ""
    stderr: str = ""
    delay_s: float = 0.0

    def bashrc(self) -> str:
        """Also read by the shell that runs one command, which is how it gets into answers."""
        lines = []
        if self.delay_s:
            lines.append(f"sleep {self.delay_s:g}")
        if self.stdout:
            lines.append(f"printf '%s\\n' {shlex.quote(self.stdout)}")
        if self.stderr:
            lines.append(f"printf '%s\\n' {shlex.quote(self.stderr)} >&2")
        return "".join(f"{line}\n" for line in lines)


NOISY = Noise(
    banner="*** This machine is for science only. ***\n",
    stdout='Welcome! {"jobs": 3} of yours are waiting.',
    stderr="warning: your quota is used to 93 %",
)


@dataclass(frozen=True)
class Host:
    """How the client reaches one host: `jump` names the host it goes through."""

    name: str
    address: str
    port: int
    key: str
    jump: str = ""


def sshd_conf(folder: Path, listen: str, port: int, environ: Mapping[str, str]) -> str:
    """Keys only, and only the one key. A banner is shown while the file has something in it."""
    lines = [
        f'Include "{folder}/asking.conf"',
        f"ListenAddress {listen}",
        f"Port {port}",
        f'HostKey "{folder}/host_key"',
        f'AuthorizedKeysFile "{folder}/authorized_keys"',
        f'Banner "{folder}/banner"',
        "PidFile none",
        "StrictModes no",
        "UsePAM no",
        "UseDNS no",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "MaxStartups 100",
        "PrintMotd no",
        "PrintLastLog no",
        "AcceptEnv LANG LC_*",
        "Subsystem sftp internal-sftp",
    ]
    if environ:
        # Only the first line of this kind counts.
        lines.append("SetEnv " + " ".join(f'"{name}={value}"' for name, value in environ.items()))
    return "\n".join(lines) + "\n"


def pam_conf(check: Path) -> str:
    """A PAM service that asks for a `Password:`. It accepts the users that the program `check` accepts."""
    return (
        f"auth required pam_exec.so quiet expose_authtok {check}\n"
        "auth required pam_permit.so\n"  # pam_exec has no say in pam_setcred, and somebody must
        "account required pam_permit.so\n"
        "session required pam_permit.so\n"
    )


def check_code(code: str) -> str:
    """A program that succeeds when it reads this code."""
    return f"#!/bin/sh\ntest \"$(tr -d '\\0')\" = {shlex.quote(code)}\n"


def client_conf(folder: Path, user: str, hosts: list[Host]) -> str:
    """For `ssh -F`, or to be included in the user's own file."""
    lines: list[str] = []
    for host in hosts:
        lines += [f"Host {host.name}", f"  HostName {host.address}", f"  Port {host.port}"]
        if host.jump:
            lines.append(f"  ProxyJump {host.jump}")
    lines += [
        f"Host {' '.join(host.name for host in hosts)}",
        f"  User {user}",
        f'  IdentityFile "{folder}/key"',
        "  IdentitiesOnly yes",
        f'  UserKnownHostsFile "{folder}/known_hosts"',
        "  GlobalKnownHostsFile /dev/null",
        "  StrictHostKeyChecking yes",
        "  BatchMode yes",
        "  ConnectTimeout 20",
    ]
    return "\n".join(lines) + "\n"


def known_hosts(hosts: list[Host]) -> str:
    return "".join(f"[{host.address}]:{host.port} {host.key}\n" for host in hosts)
