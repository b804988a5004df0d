"""Machines to reach over SSH, each with its own home folder, processes and network.

`hosta` answers on a loopback port; `hostb` can be reached only from `hosta`. With a Slurm cluster there is
`login` too, its login node, and `login-jump`, the same machine through `hosta`. All lines can be disturbed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clusters.cells import Cell, Daemon, Setup, call, close, find, find_one, open_cell, open_wire, sweep
from clusters.errors import ClusterError, with_logs
from clusters.line import Line, Place, open_line
from clusters.network import link
from clusters.ports import free_ports
from clusters.slurm import Slurm
from clusters.ssh_conf import (
    ASKING,
    SSH_PORT,
    Host,
    Noise,
    check_code,
    client_conf,
    known_hosts,
    pam_conf,
    sshd_conf,
)

HOST_ADDRESSES = {"hosta": "10.99.0.1", "hostb": "10.99.0.2"}
_LOOPBACK = "127.0.0.1"
_LOGIN = "login"
_MARK = "ssh-boxes"
_TIMEOUT_S = 120.0
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class SshHost:
    """One SSH host: `folder` has its configuration, `home` is the home of its users."""

    name: str
    folder: Path
    listen: str
    port: int

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def let_in(self, other: SshHost, key: Path) -> None:
        """From now on, processes here log in to the other machine with this key."""
        keys = self.home / ".ssh"
        keys.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(key, keys / "id_ed25519")
        host_key = (other.folder / "host_key.pub").read_text()
        (keys / "known_hosts").write_text(f"{other.name},{HOST_ADDRESSES[other.name]} {host_key}")

    @property
    def conf_of_asking(self) -> Path:
        """Settings of sshd in front of its others; absent on a machine that asks for nothing but a key."""
        return self.folder / "asking.conf"

    @property
    def pam(self) -> Path:
        """The machine's /etc/pam.d/sshd."""
        return self.folder / "pam"

    def set_noise(self, noise: Noise) -> None:
        """From the next login on; `Noise()` is silence."""
        (self.folder / "banner").write_text(noise.banner)
        (self.home / ".bashrc").write_text(noise.bashrc())


@dataclass(frozen=True)
class SshHosts:
    """The running machines, and the lines to them by the name of the host they lead to."""

    folder: Path
    machines: dict[str, SshHost] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)
    tied: bool = False

    @property
    def config(self) -> Path:
        """The client's configuration, for `ssh -F`."""
        return self.folder / "client" / "config"

    @property
    def bin(self) -> Path:
        """A folder with an `ssh` that reads `config`, for programs that cannot be told: OpenSSH finds the
        user's own file by the password database, whatever HOME says."""
        return self.folder / "client" / "bin"

    @property
    def env(self) -> dict[str, str]:
        """This process's environment with `bin` in front of the search path."""
        return {**os.environ, "PATH": f"{self.bin}{os.pathsep}{os.environ.get('PATH', _SYSTEM_PATH)}"}

    def ssh(self, host: str, *words: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """One command on a host, whatever its end."""
        return subprocess.run(
            ["ssh", "-F", str(self.config), host, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )

    def ask_for(self, name: str, code: str | None) -> None:
        """From now on, a login on this machine needs a code in addition to its key; not with None. Every
        connection to the machine is lost.
        """
        box = self.machines[name]
        if code is None:
            box.conf_of_asking.unlink(missing_ok=True)
        else:
            box.conf_of_asking.write_text(ASKING)
            check = box.folder / "check-code"
            check.write_text(check_code(code))
            check.chmod(0o755)
            box.pam.write_text(pam_conf(check))
        self.kill(name)
        self.start(name)

    def kill(self, name: str) -> None:
        """As a power cut would: every process of the machine is gone at once. Its files stay."""
        close(find_one(self.folder, name))

    def start(self, name: str) -> None:
        """Switch on a machine that was killed; blocks until it answers."""
        box = self.machines[name]
        wire = find(self.folder).get(f"{name}-wire")
        binds = {f"/etc/{file}": box.folder / file for file in ("passwd", "shadow", "hosts")}
        if os.path.exists("/etc/pam.d/sshd"):  # a file can be shown only in the place of another
            binds["/etc/pam.d/sshd"] = box.pam
        # sshd wants /run/sshd; a /run of its own leaves the system's alone.
        # The homes of the other machines are not to be seen.
        others = [str(other.home) for other in self.machines.values() if other.name != name]
        setup = Setup(hostname=name, binds=binds, empty=["/run", *others])
        cell = open_cell(self.folder, name, setup, wire=wire, tied=self.tied)
        cell.call("mkdir", "--mode=0755", "/run/sshd")  # sshd refuses one that a group may write
        log = self.folder / "logs" / f"{name}.out"
        sshd = shutil.which("sshd", path=_SYSTEM_PATH) or "sshd"
        daemon = cell.start([sshd, "-D", "-e", "-f", str(box.folder / "conf")], log=log)
        _until_answers(cell, box, daemon)

    def heal(self) -> None:
        """All machines on, all lines clear, no noise. Idempotent."""
        for line in self.lines.values():
            line.clear()
        for name, box in self.machines.items():
            box.set_noise(Noise())
            if box.conf_of_asking.exists():
                self.ask_for(name, None)
            if name not in find(self.folder):
                self.start(name)


def up(
    folder: Path, *, slurm: Slurm | None = None, noise: Noise | None = None, tied: bool = False
) -> SshHosts:
    """Start the machines in `folder`, which must not exist or be empty; ClusterError with logs on failure.

    Tied, they die with the thread that called this, however that ends.
    """
    folder = _checked(folder)
    (folder / "client" / "bin").mkdir(parents=True)
    (folder / _MARK).touch()
    machines = SshHosts(folder, tied=tied)
    try:
        _start(machines, slurm)
        for box in machines.machines.values():
            box.set_noise(noise or Noise())
    except BaseException:
        sweep(folder)
        raise
    return machines


def attach(folder: Path) -> SshHosts:
    """The machines that run in `folder`, as far as a client needs them; ClusterError when there are none."""
    machines = SshHosts(folder.resolve())
    if not machines.config.exists() or "hosta" not in find(machines.folder):
        raise ClusterError(f"no boxes run in {folder}")
    return machines


def down(folder: Path) -> bool:
    """End the machines of `folder`, also of an `up` that crashed, and remove it; whether there were any."""
    folder = folder.resolve()
    ended = sweep(folder)
    if (folder / _MARK).exists():
        shutil.rmtree(folder)
        return True
    return bool(ended)


def _checked(folder: Path) -> Path:
    folder = folder.resolve()
    if os.geteuid():
        raise ClusterError("machines with networks of their own are started as root")
    for program in ("sshd", "ssh", "ssh-keygen", "nsenter", "unshare", "setpriv", "ip"):
        if not shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_SYSTEM_PATH}"):
            raise ClusterError(f"there is no `{program}`: `bash scripts/apt-packages.sh` installs it")
    if folder.exists() and any(folder.iterdir()):
        raise ClusterError(f"{folder} is not empty: `make ssh-down` ends and removes the machines in it")
    return folder


def _start(machines: SshHosts, slurm: Slurm | None) -> None:
    folder, tied = machines.folder, machines.tied
    client = folder / "client"
    _make_key(client / "key")
    wires = {name: open_wire(folder, f"{name}-wire", tied=tied) for name in HOST_ADDRESSES}
    link(wires["hosta"], HOST_ADDRESSES["hosta"], wires["hostb"], HOST_ADDRESSES["hostb"])
    for name in HOST_ADDRESSES:
        machines.machines[name] = _write_host(folder, SshHost(name, folder / name, "0.0.0.0", SSH_PORT), {})
    if slurm:
        login = SshHost(_LOGIN, folder / _LOGIN, _LOOPBACK, free_ports(1)[0])
        machines.machines[_LOGIN] = _write_host(folder, login, slurm.exports)
    for name in machines.machines:
        machines.start(name)
    hosts = _open_lines(machines, wires)
    (client / "known_hosts").write_text(known_hosts(hosts))
    (client / "config").write_text(client_conf(client, pwd.getpwuid(os.getuid()).pw_name, hosts))
    wrapper = machines.bin / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F "{machines.config}" "$@"\n')
    wrapper.chmod(0o755)


def _open_lines(machines: SshHosts, wires: dict[str, Cell]) -> list[Host]:
    """The connection to each host: where its line listens, where it ends, and which jump host it uses."""
    here, jump = Place(None, _LOOPBACK, 0), Place(wires["hosta"], _LOOPBACK, 0)
    ways = [
        ("hosta", "hosta", here, Place(wires["hosta"], _LOOPBACK, SSH_PORT)),
        ("hostb", "hostb", jump, Place(wires["hosta"], HOST_ADDRESSES["hostb"], SSH_PORT)),
    ]
    if _LOGIN in machines.machines:
        end = Place(None, _LOOPBACK, machines.machines[_LOGIN].port)
        ways += [(_LOGIN, _LOGIN, here, end), (f"{_LOGIN}-jump", _LOGIN, jump, end)]
    hosts = []
    for name, machine, listen, connect in ways:
        line = machines.lines[name] = open_line(machines.folder, name, listen, connect, tied=machines.tied)
        key = (machines.machines[machine].folder / "host_key.pub").read_text().strip()
        hosts.append(Host(name, _LOOPBACK, line.port, key, jump="hosta" if listen is jump else ""))
    return hosts


def _write_host(folder: Path, box: SshHost, environ: dict[str, str]) -> SshHost:
    """Everybody else in the password database stays as on this machine; the caller's home is the box's."""
    box.home.mkdir(parents=True)
    _make_key(box.folder / "host_key")
    shutil.copy(folder / "client" / "key.pub", box.folder / "authorized_keys")
    (box.folder / "conf").write_text(sshd_conf(box.folder, box.listen, box.port, environ))
    me = pwd.getpwuid(os.getuid())
    others = [entry for entry in pwd.getpwall() if entry.pw_name != me.pw_name]
    entries: Sequence[str] = [
        f"{me.pw_name}:x:{me.pw_uid}:{me.pw_gid}::{box.home}:/bin/bash",
        *(":".join(str(part) for part in entry) for entry in others),
    ]
    box.pam.touch()
    (box.folder / "passwd").write_text("".join(f"{entry}\n" for entry in entries))
    # No password at all, so that a key is all that counts.
    (box.folder / "shadow").write_text(f"{me.pw_name}:*:19000:0:99999:7:::\n")
    (box.folder / "hosts").write_text(_hosts(box.name))
    return box


def _hosts(name: str) -> str:
    """The boxes know each other; the login node, on the network of the caller, knows itself."""
    known = HOST_ADDRESSES if name in HOST_ADDRESSES else {name: _LOOPBACK}
    return f"{_LOOPBACK} localhost\n" + "".join(f"{address} {box}\n" for box, address in known.items())


def _make_key(path: Path) -> None:
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "throw-away", "-f", str(path))


def _until_answers(cell: Cell, box: SshHost, daemon: Daemon) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    greeting = f"read -t 5 line <>/dev/tcp/127.0.0.1/{box.port} && [[ $line == SSH-* ]]"
    while True:
        daemon.check()
        try:
            cell.call("bash", "-c", greeting)
            return
        except ClusterError as error:
            if time.monotonic() > deadline:
                raise with_logs(f"sshd of {box.name} did not start: {error}", daemon.log) from error
            time.sleep(0.05)
