"""`gofer login`: machines that ask for a code in addition to the key.

A real sshd asks through PAM, on a real terminal. Each test has a folder for sockets of its own, because
clusters of other tests have machines of the same names.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home, until
from terminal import Terminal

from gofer.errors import Unreachable
from gofer.transport.ssh import Login, SshMachine
from gofer.transport.ssh_errors import LoginNeeded

pytestmark = ON_SSH_HOSTS

CODE = "271828"
PROMPT = "Password: "
TARGETS = """\
targets:
  lab: {kind: ssh, hosts: [hosta]}
  far: {kind: ssh, hosts: [hostb]}
  pool: {kind: ssh, hosts: [hosta, hostb]}
  site: {kind: slurm, login: hosta}
"""


class Laptop(Home):
    """A home whose `ssh` reads settings of its own, as a person's does: `configure_ssh` changes them."""

    def __init__(self, root: Path, hosts: SshHosts, sockets: Path) -> None:
        super().__init__(root)
        self.environ["XDG_RUNTIME_DIR"] = str(sockets)
        self.config = root / "ssh config"
        self.config.write_text(hosts.config.read_text())
        wrapper = root / "bin" / "ssh"
        wrapper.parent.mkdir()
        wrapper.write_text((hosts.bin / "ssh").read_text().replace(str(hosts.config), str(self.config)))
        wrapper.chmod(0o755)
        self.environ["PATH"] = f"{wrapper.parent}:{self.environ['PATH']}"
        self.configure(TARGETS)

    def configure_ssh(self, first: str) -> None:
        """Put lines in front of the settings: of two values, `ssh` takes the first."""
        self.config.write_text(first + self.config.read_text())

    def terminal(self, *words: str) -> Terminal:
        """A command of gofer on a terminal that is the controlling one, so that `ssh` can ask on it."""
        argv = ["setsid", "--ctty", "--wait", *self.argv(*words)]
        return Terminal(argv, cwd=self.folder, env=self.environ)

    def log_in(self, *words: str, prompts: int = 1) -> str:
        """Log in and type the code at each prompt; what the terminal showed."""
        with self.terminal("login", *words) as terminal:
            for count in range(1, prompts + 1):
                terminal.until(PROMPT, times=count)
                terminal.type(f"{CODE}\r")
            assert terminal.end() == 0, terminal.shown
            return terminal.shown

    def logins(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self.gofer("list", "logins", "--json").out)
        return found

    def hosts_open(self) -> list[object]:
        return [one["host"] for one in self.logins()]

    def master(self, host: str) -> int:
        """The pid of the `ssh` that holds gofer's connection to the host."""
        path = f"ControlPath={self.environ['XDG_RUNTIME_DIR']}/gofer/%C"
        argv = ["ssh", "-O", "check", "-o", path, "-o", "ProxyCommand=none", host]
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, check=True)
        found = re.search(r"pid=(\d+)", done.stderr + done.stdout)
        assert found
        return int(found[1])


@pytest.fixture
def laptop(tmp_path: Path, ssh_hosts: SshHosts) -> Iterator[Laptop]:
    with tempfile.TemporaryDirectory(prefix="gofer-", dir="/tmp") as sockets:  # its name must be short
        home = Laptop(tmp_path, ssh_hosts, Path(sockets))
        yield home
        for host in ("hostb", "hosta"):
            home.gofer("logout", "--host", host, status=None)
        home.close()


def test_later_commands_use_the_connection_until_it_is_gone(laptop: Laptop, ssh_hosts: SshHosts) -> None:
    ssh_hosts.ask_for("hosta", CODE)
    asked = "hosta cannot be reached: it asks for a password or a code, and no connection to it is open"
    before = laptop.gofer("-c", "lab", "submit", "--no-code", "hostname", status=1)
    assert asked in before.err and "hint: `gofer login lab` asks on the terminal" in before.err
    shown = laptop.log_in("lab")
    assert "hosta: logged in; the connection stays open for 12h00m after its last use" in shown
    run = laptop.submit("-c", "lab", "--wait", "hostname")
    assert laptop.log(run) == "hosta\n"
    (one,) = laptop.logins()
    assert (one["host"], one["target"], one["opened_by"]) == ("hosta", "lab", "gofer login")
    assert str(one["until"]) > str(one["opened_at"])
    # A target of another kind on the same machine needs no login of its own, and a second login asks nothing.
    assert "you are logged in already" in laptop.gofer("login", "site").err
    assert "hosta" in laptop.gofer("list", "logins").out

    os.kill(laptop.master("hosta"), signal.SIGKILL)
    until(lambda: asked in laptop.gofer("logs", run, status=None).err, "the connection is gone")
    assert "`gofer login lab`" in laptop.gofer("list", "nodes", "-t", "lab").out
    assert "`gofer login pool`" in laptop.gofer("doctor", "-t", "pool", status=1).err
    assert laptop.logins() == []
    assert "no connection is open" in laptop.gofer("list", "logins").err
    laptop.log_in("lab", "--keep", "2h")
    assert laptop.log(run) == "hosta\n"


def test_a_wrong_code_opens_nothing(laptop: Laptop, ssh_hosts: SshHosts) -> None:
    ssh_hosts.ask_for("hosta", CODE)
    with laptop.terminal("login", "pool") as terminal:
        for count in (1, 2, 3):
            terminal.until(PROMPT, times=count)
            terminal.type("000000\r")
        assert terminal.end() == 1
    assert "no connection to hosta was opened" in terminal.shown
    # hostb lies behind hosta, and is not tried.
    assert "hostb" not in terminal.shown
    assert laptop.logins() == []
    shown = laptop.log_in("lab")
    assert "logged in" in shown and laptop.hosts_open() == ["hosta"]


def test_jump_hosts_are_asked_first_and_never_again(laptop: Laptop, ssh_hosts: SshHosts) -> None:
    for host in ("hosta", "hostb"):
        ssh_hosts.ask_for(host, CODE)
    # On a terminal too, a command that is not `gofer login` asks nothing: neither host is sent a wrong code.
    with laptop.terminal("-c", "far", "submit", "--no-code", "hostname") as terminal:
        assert terminal.end() == 1
    assert PROMPT not in terminal.shown
    assert "its jump host hosta cannot be reached: it asks for a password or a code" in terminal.shown
    assert "`gofer login far`" in terminal.shown
    shown = laptop.log_in("far", prompts=2)
    assert shown.index("hosta: logged in") < shown.index("hostb: logged in")
    # The terminal is closed. The way through hosta stays open.
    assert laptop.log(laptop.submit("-c", "far", "--wait", "hostname")) == "hostb\n"
    assert laptop.hosts_open() == ["hosta", "hostb"]
    done = laptop.gofer("logout", "far", "--json")
    assert {one["host"]: one["closed"] for one in json.loads(done.out)} == {"hosta": True, "hostb": True}
    assert laptop.logins() == []


def test_a_machine_behind_one_that_asks_needs_the_code_of_that_one_alone(
    laptop: Laptop, ssh_hosts: SshHosts
) -> None:
    ssh_hosts.ask_for("hosta", CODE)
    laptop.log_in("lab")
    run = laptop.submit("-c", "far", "--wait", "hostname")
    assert laptop.log(run) == "hostb\n"
    assert laptop.hosts_open() == ["hosta"]


def test_an_unknown_host_key_is_shown_and_confirmed_once(laptop: Laptop, tmp_path: Path) -> None:
    known = tmp_path / "known hosts"
    laptop.configure_ssh(f'UserKnownHostsFile "{known}"\nStrictHostKeyChecking ask\n')
    before = laptop.gofer("-c", "lab", "submit", "--no-code", "hostname", status=1)
    assert "its host key is not known on this machine" in before.err
    assert "`gofer login lab` shows the fingerprint" in before.err
    with laptop.terminal("login", "lab") as terminal:
        terminal.until("continue connecting (yes/no/[fingerprint])?")
        assert "SHA256:" in terminal.shown
        terminal.type("yes\r")
        assert terminal.end() == 0
    assert known.exists()
    laptop.gofer("logout", "lab")
    laptop.gofer("-c", "lab", "submit", "--no-code", "--wait", "hostname")


def test_a_connection_of_the_persons_own_is_used(laptop: Laptop, ssh_hosts: SshHosts, tmp_path: Path) -> None:
    ssh_hosts.ask_for("hosta", CODE)
    laptop.configure_ssh(f"Host hosta\nControlPath {laptop.environ['XDG_RUNTIME_DIR']}/own\n")
    answer = tmp_path / "answer"
    answer.write_text(f"#!/bin/sh\necho {CODE}\n")
    answer.chmod(0o755)
    environ = {**laptop.environ, "SSH_ASKPASS": str(answer), "SSH_ASKPASS_REQUIRE": "force"}
    # A command of gofer takes neither a window nor a program to answer for the person.
    assert "`gofer login lab`" in laptop.gofer("-c", "lab", "submit", "ls", status=1, env=environ).err
    argv = ["ssh", "-fNM", "-o", "BatchMode=no", "hosta"]
    subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, check=True, timeout=60)
    run = laptop.submit("-c", "lab", "--wait", "hostname")
    assert laptop.log(run) == "hosta\n"
    assert [(one["opened_by"], one["target"], one["until"]) for one in laptop.logins()] == [
        ("ssh", "lab", None)
    ]
    assert "a connection of your own `ssh` is open" in laptop.gofer("login", "lab").err
    assert "stays open; `ssh -O exit hosta` closes it" in laptop.gofer("logout", "lab").err
    subprocess.run(["ssh", "-O", "exit", "hosta"], env=laptop.environ, check=True, timeout=60)
    assert "`gofer login lab`" in laptop.gofer("logs", run, status=1).err


def test_target_add_offers_to_log_in(laptop: Laptop, ssh_hosts: SshHosts) -> None:
    ssh_hosts.ask_for("hosta", CODE)
    words = ["target", "add", "new", "--kind", "ssh", "--host", "hostb"]
    # The target does not exist yet; a script gets the command to type.
    assert "`gofer login --host hosta`" in laptop.gofer(*words, status=1).err
    with laptop.terminal(*words) as terminal:
        terminal.until("its jump host hosta cannot be reached: it asks for a password or a code")
        terminal.until("log in to hostb on this terminal now? [Y/n]")
        terminal.type("\r")
        terminal.until(PROMPT)
        terminal.type(f"{CODE}\r")
        terminal.until("gofer reaches hostb")
        assert terminal.end() == 0
    assert {one["target"] for one in laptop.logins()} == {"new"}
    checks = {one["name"]: one for one in json.loads(laptop.gofer("doctor", "-t", "new", "--json").out)}
    assert checks["login"]["detail"].startswith("hostb: open until 20")
    laptop.gofer("logout", "new")
    done = laptop.gofer("doctor", "-t", "new", "--json", status=1)
    checks = {one["name"]: one for one in json.loads(done.out)}
    assert "not open" in checks["login"]["detail"]
    assert "`gofer login new`" in checks["target"]["hint"]
    with laptop.terminal(*words, "--force") as terminal:
        terminal.until("log in to hostb on this terminal now? [Y/n]")
        terminal.type("n\r")
        assert terminal.end() == 1
    assert laptop.logins() == []


def test_a_machine_that_asks_is_not_asked_again_and_again(
    laptop: Laptop, ssh_hosts: SshHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh_hosts.ask_for("hosta", CODE)
    monkeypatch.setenv("PATH", laptop.environ["PATH"])
    laptop.gofer("login", "lab", status=1)
    machine = SshMachine(Login("hosta"), sockets=Path(laptop.environ["XDG_RUNTIME_DIR"]) / "gofer")
    before = ssh_hosts.lines["hosta"].counts().connections
    for _ in range(5):
        with pytest.raises(LoginNeeded):
            machine.files("~").find()
    # One failed login: a machine may lock out a user with many.
    assert ssh_hosts.lines["hosta"].counts().connections == before + 1
    laptop.log_in("lab")
    assert machine.files("~").find()
    # The network is gone, and nobody knows it yet.
    ssh_hosts.lines["hosta"].pause()
    with pytest.raises(Unreachable, match="over the open connection") as caught:
        machine.files("~", wait_s=0.5).find()
    assert "`gofer logout --host hosta && gofer login --host hosta`" in str(caught.value.hint)
    machine.close()


def test_who_follows_a_run_is_told_to_log_in_and_follows_on(laptop: Laptop, ssh_hosts: SshHosts) -> None:
    ssh_hosts.ask_for("hosta", CODE)
    laptop.log_in("lab")
    run = laptop.submit(
        "-c", "lab", "sh", "-c", "echo first; until test -e go; do sleep 0.1; done; echo last"
    )
    with laptop.terminal("logs", "-f", run) as terminal:
        terminal.until("first")
        laptop.gofer("logout", "lab")
        terminal.until("no connection to it is open; trying again")
        terminal.until("`gofer login lab` asks on the terminal")
        assert "hint:" in laptop.gofer("list").err and "`gofer login lab`" in laptop.gofer("list").err
        laptop.log_in("lab")
        laptop.gofer("ssh", run, "touch", "go")
        terminal.until("last")
        assert terminal.end() == 0


def test_without_a_terminal_a_key_is_enough_or_the_error_says_so(laptop: Laptop, ssh_hosts: SshHosts) -> None:
    done = laptop.gofer("login", "--host", "hosta", "--json", "--keep", "5m")
    assert [one["target"] for one in json.loads(done.out)] == [None]
    assert "`gofer logout --host hosta` closes it now" in done.err
    ssh_hosts.ask_for("hosta", CODE)
    laptop.gofer("logout", "--host", "hosta")
    refused = laptop.gofer("login", "--host", "hosta", status=1)
    assert "`gofer login --host hosta` asks on the terminal" in refused.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["login", "local"], "the target `local` needs no login"),
        (["login", "lbaa"], "there is no target `lbaa`"),
        (["login", "lab", "--device-code"], "`--device-code` is for Azure"),
        (["login", "lab", "-t", "far"], "two targets are named, `lab` and `far`"),
        (["login", "lab", "--host", "hosta"], "a target and `--host` are named"),
        (["login", "lab", "--keep", "1s"], "a connection cannot be kept for 1s"),
        (["logout", "local"], "the target `local` needs no login"),
    ],
)
def test_what_cannot_be_logged_in_to_is_refused(laptop: Laptop, words: list[str], message: str) -> None:
    assert message in laptop.gofer(*words, status=2).err
