"""A machine over SSH does as this one does, through jump hosts and noise, and says what is wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.line import Fault
from clusters.ssh import SshHosts
from clusters.ssh_conf import NOISY, Noise
from home import until
from pythons import pythons

from gofer.core.private_folder import ForeignFolder
from gofer.core.secrets import run_secrets
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.errors import Unreachable
from gofer.objects.facts import Exists, ObjectNotFound
from gofer.remote.api import LogEnd, QueueAnswer, SupervisorStatus
from gofer.remote.calls import RemoteError, describe
from gofer.transport.bundle import mark
from gofer.transport.machine import LocalMachine, Machine
from gofer.transport.shared_connection import sockets_folder
from gofer.transport.ssh import Login, SshMachine

pytestmark = ON_SSH_HOSTS


@pytest.fixture
def hostb(ssh_hosts: SshHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshMachine]:
    """`hostb`, behind `hosta`."""
    monkeypatch.setenv("PATH", ssh_hosts.env["PATH"])
    hostb = SshMachine(Login("hostb"), sockets=sockets_folder(os.environ))
    yield hostb
    hostb.close()
    ssh_hosts.machines["hostb"].set_noise(Noise())


def other(hostb: SshMachine, host: str, **login: str) -> SshMachine:
    return SshMachine(Login(host, **login), sockets=hostb._sockets)


def host_of(machine: Machine) -> str:
    return machine.queue("~/queue").facts().host


def test_it_is_another_machine_and_answers_as_this_one_does(
    hostb: SshMachine, ssh_hosts: SshHosts, tmp_path: Path
) -> None:
    assert host_of(hostb) == "hostb"
    assert hostb.files("~").find() == str(ssh_hosts.machines["hostb"].home)
    machines: list[Machine] = [hostb, LocalMachine()]
    for machine in machines:
        folder = str(tmp_path / machine.name)
        files = machine.files(folder)
        assert (files.find(), files.make(), files.find()) == (None, folder, folder)
        files.put("a/b", b"in\0put", new=True)
        entry = files.head("a/b")
        assert entry is not None
        assert (entry.key, entry.size, type(entry.modified)) == ("a/b", 6, float)
        assert (files.list_page("", ""), files.list_page("", "a/b")) == ([entry], [])
        assert (files.get("a/b", 2, 99), files.head("c")) == (b"\0put", None)
        with pytest.raises(ObjectNotFound, match="no such object"):
            files.get("c", 0, 1)
        with pytest.raises(Exists):
            files.put("a/b", b"", new=True)
        (tmp_path / machine.name / "d").mkdir()
        with pytest.raises(IsADirectoryError) as caught:
            files.put("d", b"", new=False)
        assert describe(caught.value).endswith("Is a directory")


def test_a_queue_and_its_errors_are_the_same_over_a_connection(hostb: SshMachine, tmp_path: Path) -> None:
    machines: list[Machine] = [hostb, LocalMachine()]
    for machine in machines:
        home = str(tmp_path / machine.name)
        queue = machine.queue(f"{home}/{{host}}")
        host = host_of(machine)
        values = RunSecrets({"A": "b"}, {"root": "u"}, {"data": {"key": "k"}}, ["A"], None, {"nice": 9})
        queue.keep_secrets("r1", values, False)
        assert run_secrets.read(f"{home}/{host}", "r1") == values
        assert queue.observe(["r1"]) == QueueAnswer(False, [], {})
        assert queue.waiting("r1") is None
        assert queue.supervisor() == SupervisorStatus(False, None, None)
        assert queue.facts().queue_home == f"{home}/{host}"
        assert queue.log_end() == LogEnd(f"{home}/{host}/supervisor.log", "")
        (tmp_path / machine.name / "file").touch()
        with pytest.raises((ForeignFolder, RemoteError, OSError), match="is not a folder"):
            machine.queue(f"{home}/file").facts()


def test_the_agent_is_sent_once_and_nothing_else_is_left(hostb: SshMachine, ssh_hosts: SshHosts) -> None:
    home = ssh_hosts.machines["hostb"].home
    shutil.rmtree(home / ".gofer", ignore_errors=True)
    hostb.files("~").find()
    hostb.close()
    sent = ssh_hosts.lines["hostb"].counts().up
    hostb.files("~").find()
    assert ssh_hosts.lines["hostb"].counts().up - sent < 20_000
    assert [path.name for path in (home / ".gofer").iterdir()] == ["agent"]
    assert [path.name for path in (home / ".gofer/agent").iterdir()] == [mark()]


@pytest.mark.parametrize("size", [0, 1, 70_000, 5_000_000])
def test_bytes_pass_as_they_are_both_ways(hostb: SshMachine, size: int) -> None:
    data = os.urandom(size)
    files = hostb.files("~/store")
    files.make()
    files.put("bytes", data, new=False)
    assert files.get("bytes", 0, size + 1) == data


def test_what_a_login_prints_does_not_matter(hostb: SshMachine, ssh_hosts: SshHosts) -> None:
    ssh_hosts.machines["hostb"].set_noise(NOISY)
    assert host_of(hostb) == "hostb"


def test_a_connection_is_shared_by_commands(hostb: SshMachine, ssh_hosts: SshHosts) -> None:
    hostb.files("~").find()
    before = ssh_hosts.lines["hostb"].counts().connections
    second = other(hostb, "hostb")
    assert host_of(second) == "hostb"
    second.close()
    assert ssh_hosts.lines["hostb"].counts().connections == before


@pytest.mark.parametrize("kind", ["refuse", "drop", "truncate"])
def test_a_line_that_breaks_is_named_and_the_next_call_connects_again(
    hostb: SshMachine, ssh_hosts: SshHosts, kind: str
) -> None:
    hostb.files("~").find()
    line = ssh_hosts.lines["hostb"]
    line.cut()
    line.set(Fault(kind, after_bytes=3000), times=1)  # type: ignore[arg-type]
    with pytest.raises(Unreachable, match="hostb"):
        for _ in range(3):
            hostb.files("~").find()
    line.clear()
    assert host_of(hostb) == "hostb"


def test_a_line_that_was_cut_while_nobody_used_it_is_no_news(hostb: SshMachine, ssh_hosts: SshHosts) -> None:
    hostb.files("~").find()
    line = hostb._line
    assert line is not None
    for one in ssh_hosts.lines.values():
        one.cut()
    until(lambda: not line.is_open, "its ssh has ended")
    assert host_of(hostb) == "hostb"


def test_a_machine_that_says_nothing_is_not_waited_for_without_end(
    hostb: SshMachine, ssh_hosts: SshHosts
) -> None:
    hostb.files("~").find()
    ssh_hosts.lines["hostb"].pause()
    with pytest.raises(Unreachable, match="did not answer in time"):
        hostb.files("~", wait_s=0.5).find()


def test_errors_say_what_mends_them(hostb: SshMachine, tmp_path: Path) -> None:
    cases = {
        "no-such-host.invalid": "the host name is unknown",
        "hostb": "the target's Python is not installed there",
    }
    for host, words in cases.items():
        with pytest.raises(Unreachable, match=words) as caught:
            other(hostb, host, python="/no/python3").files("~").find()
        assert caught.value.hint


def test_an_old_python_is_refused_by_its_version(hostb: SshMachine) -> None:
    old = pythons("3.6", "3.7")
    with pytest.raises(Unreachable, match=r"has Python 3\.[67], but gofer needs 3.8"):
        other(hostb, "hosta", python=str(old[0])).files("~").find()


def test_other_pythons_since_3_8_can_be_the_far_end(hostb: SshMachine) -> None:
    for python in pythons("3.8", "3.9", "3.10", "3.12", "3.13"):
        machine = other(hostb, "hosta", python=str(python))
        assert host_of(machine) == "hosta"
        machine.close()
