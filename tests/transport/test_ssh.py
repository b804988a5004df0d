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

from gofer.errors import Unreachable
from gofer.transport.bundle import mark
from gofer.transport.machine import LocalMachine, Machine, RemoteFailure, run
from gofer.transport.ssh import Login, SshMachine, sockets_folder

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


def test_it_is_another_machine_and_answers_as_this_one_does(hostb: SshMachine, ssh_hosts: SshHosts) -> None:
    facts = hostb.call("machine.facts").value
    assert facts["host"] == "hostb"
    assert facts["home"] == str(ssh_hosts.machines["hostb"].home)
    machines: list[Machine] = [hostb, LocalMachine()]
    for machine in machines:
        done = run(
            machine, ["sh", "-c", "cat; echo $X >&2; exit 3"], stdin=b"in\0put", env={"X": "odd 'one'"}
        )
        assert done == (3, "in\0put", "odd 'one'\n")
        with pytest.raises(RemoteFailure) as caught:
            run(machine, ["no-such-program"])
        assert caught.value.kind == "FileNotFoundError"
        assert run(machine, ["sleep", "100"], timeout_s=0.2).status is None


def test_the_agent_is_sent_once_and_nothing_else_is_left(hostb: SshMachine, ssh_hosts: SshHosts) -> None:
    home = ssh_hosts.machines["hostb"].home
    shutil.rmtree(home / ".gofer", ignore_errors=True)
    hostb.call("machine.facts")
    hostb.close()
    sent = ssh_hosts.lines["hostb"].counts().up
    hostb.call("machine.facts")
    assert ssh_hosts.lines["hostb"].counts().up - sent < 20_000
    assert [path.name for path in (home / ".gofer").iterdir()] == ["agent"]
    assert [path.name for path in (home / ".gofer/agent").iterdir()] == [mark()]


@pytest.mark.parametrize("size", [0, 1, 70_000, 5_000_000])
def test_bytes_pass_as_they_are_both_ways(hostb: SshMachine, size: int) -> None:
    data = os.urandom(size)
    assert hostb.call("machine.run", data, argv=["cat"]).data == data


def test_what_a_login_prints_does_not_matter(hostb: SshMachine, ssh_hosts: SshHosts) -> None:
    ssh_hosts.machines["hostb"].set_noise(NOISY)
    assert hostb.call("machine.facts").value["host"] == "hostb"


def test_a_connection_is_shared_by_commands(hostb: SshMachine, ssh_hosts: SshHosts) -> None:
    hostb.call("machine.facts")
    before = ssh_hosts.lines["hostb"].counts().connections
    second = other(hostb, "hostb")
    assert second.call("machine.facts").value["host"] == "hostb"
    second.close()
    assert ssh_hosts.lines["hostb"].counts().connections == before


@pytest.mark.parametrize("kind", ["refuse", "drop", "truncate"])
def test_a_line_that_breaks_is_named_and_the_next_call_connects_again(
    hostb: SshMachine, ssh_hosts: SshHosts, kind: str
) -> None:
    hostb.call("machine.facts")
    line = ssh_hosts.lines["hostb"]
    line.cut()
    line.set(Fault(kind, after_bytes=3000), times=1)  # type: ignore[arg-type]
    with pytest.raises(Unreachable, match="hostb"):
        for _ in range(3):
            hostb.call("machine.facts")
    line.clear()
    assert hostb.call("machine.facts").value["host"] == "hostb"


def test_a_line_that_was_cut_while_nobody_used_it_is_no_news(hostb: SshMachine, ssh_hosts: SshHosts) -> None:
    hostb.call("machine.facts")
    line = hostb._line
    assert line is not None
    for one in ssh_hosts.lines.values():
        one.cut()
    until(lambda: not line.is_open, "its ssh has ended")
    assert hostb.call("machine.facts").value["host"] == "hostb"


def test_a_machine_that_says_nothing_is_not_waited_for_without_end(
    hostb: SshMachine, ssh_hosts: SshHosts
) -> None:
    hostb.call("machine.facts")
    ssh_hosts.lines["hostb"].pause()
    with pytest.raises(Unreachable, match="did not answer in time"):
        hostb.call("machine.facts", wait_s=0.5)


def test_errors_say_what_mends_them(hostb: SshMachine, tmp_path: Path) -> None:
    cases = {
        "no-such-host.invalid": "the host name is unknown",
        "hostb": "the target's Python is not installed there",
    }
    for host, words in cases.items():
        with pytest.raises(Unreachable, match=words) as caught:
            other(hostb, host, python="/no/python3").call("machine.facts")
        assert caught.value.hint


def test_an_old_python_is_refused_by_its_version(hostb: SshMachine) -> None:
    old = pythons("3.6", "3.7")
    if not old:
        pytest.skip("this machine has no Python older than 3.8")
    with pytest.raises(Unreachable, match=r"has Python 3\.[67], but gofer needs 3.8"):
        other(hostb, "hosta", python=str(old[0])).call("machine.facts")


def test_other_pythons_since_3_8_can_be_the_far_end(hostb: SshMachine) -> None:
    found = pythons("3.8", "3.9", "3.10", "3.12", "3.13")
    if not found:
        pytest.skip("this machine has no Python but that of the boxes")
    for python in found:
        hostb = other(hostb, "hosta", python=str(python))
        assert hostb.call("machine.facts").value["python"].split(".")[:2] == ["3", minor_of(python)]
        hostb.close()


def minor_of(python: Path) -> str:
    done = run(LocalMachine(), [str(python), "-c", "import sys; print(sys.version_info[1])"])
    return done.output.strip()
