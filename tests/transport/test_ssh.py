"""A machine over SSH does as this one does, through jump hosts and noise, and says what is wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_BOXES
from clusters.fixtures import ssh_boxes as ssh_boxes
from clusters.fixtures import ssh_boxes_site as ssh_boxes_site
from clusters.line import Fault
from clusters.ssh import Boxes
from clusters.ssh_conf import NOISY, Noise
from home import until
from pythons import pythons

from gofer.errors import Unreachable
from gofer.transport.bundle import mark
from gofer.transport.machine import LocalMachine, Machine, RemoteFailure, run
from gofer.transport.ssh import Login, SshMachine, sockets_folder

pytestmark = ON_SSH_BOXES


@pytest.fixture
def there(ssh_boxes: Boxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshMachine]:
    """`boxb`, behind `boxa`."""
    monkeypatch.setenv("PATH", ssh_boxes.env["PATH"])
    machine = SshMachine(Login("boxb"), sockets=sockets_folder(os.environ))
    yield machine
    machine.close()
    ssh_boxes.boxes["boxb"].say(Noise())


def other(there: SshMachine, host: str, **login: str) -> SshMachine:
    return SshMachine(Login(host, **login), sockets=there._sockets)


def test_it_is_another_machine_and_answers_as_this_one_does(there: SshMachine, ssh_boxes: Boxes) -> None:
    facts = there.call("machine.facts").value
    assert facts["host"] == "boxb"
    assert facts["home"] == str(ssh_boxes.boxes["boxb"].home)
    machines: list[Machine] = [there, LocalMachine()]
    for machine in machines:
        done = run(
            machine, ["sh", "-c", "cat; echo $X >&2; exit 3"], stdin=b"in\0put", env={"X": "odd 'one'"}
        )
        assert done == (3, "in\0put", "odd 'one'\n")
        with pytest.raises(RemoteFailure) as caught:
            run(machine, ["no-such-program"])
        assert caught.value.kind == "FileNotFoundError"
        assert run(machine, ["sleep", "100"], timeout_s=0.2).status is None


def test_the_agent_is_sent_once_and_nothing_else_is_left(there: SshMachine, ssh_boxes: Boxes) -> None:
    home = ssh_boxes.boxes["boxb"].home
    shutil.rmtree(home / ".gofer", ignore_errors=True)
    there.call("machine.facts")
    there.close()
    sent = ssh_boxes.lines["boxb"].counts().up
    there.call("machine.facts")
    assert ssh_boxes.lines["boxb"].counts().up - sent < 20_000
    assert [path.name for path in (home / ".gofer").iterdir()] == ["agent"]
    assert [path.name for path in (home / ".gofer/agent").iterdir()] == [mark()]


@pytest.mark.parametrize("size", [0, 1, 70_000, 5_000_000])
def test_bytes_pass_as_they_are_both_ways(there: SshMachine, size: int) -> None:
    data = os.urandom(size)
    assert there.call("machine.run", data, argv=["cat"]).data == data


def test_what_a_login_prints_does_not_matter(there: SshMachine, ssh_boxes: Boxes) -> None:
    ssh_boxes.boxes["boxb"].say(NOISY)
    assert there.call("machine.facts").value["host"] == "boxb"


def test_a_connection_is_shared_by_commands(there: SshMachine, ssh_boxes: Boxes) -> None:
    there.call("machine.facts")
    before = ssh_boxes.lines["boxb"].counts().connections
    second = other(there, "boxb")
    assert second.call("machine.facts").value["host"] == "boxb"
    second.close()
    assert ssh_boxes.lines["boxb"].counts().connections == before


@pytest.mark.parametrize("kind", ["refuse", "drop", "truncate"])
def test_a_line_that_breaks_is_named_and_the_next_call_connects_again(
    there: SshMachine, ssh_boxes: Boxes, kind: str
) -> None:
    there.call("machine.facts")
    line = ssh_boxes.lines["boxb"]
    line.cut()
    line.set(Fault(kind, after_bytes=3000), times=1)  # type: ignore[arg-type]
    with pytest.raises(Unreachable, match="boxb"):
        for _ in range(3):
            there.call("machine.facts")
    line.clear()
    assert there.call("machine.facts").value["host"] == "boxb"


def test_a_line_that_was_cut_while_nobody_used_it_is_no_news(there: SshMachine, ssh_boxes: Boxes) -> None:
    there.call("machine.facts")
    line = there._line
    assert line is not None
    for one in ssh_boxes.lines.values():
        one.cut()
    until(lambda: not line.is_open, "its ssh has ended")
    assert there.call("machine.facts").value["host"] == "boxb"


def test_a_machine_that_says_nothing_is_not_waited_for_without_end(
    there: SshMachine, ssh_boxes: Boxes
) -> None:
    there.call("machine.facts")
    ssh_boxes.lines["boxb"].pause()
    with pytest.raises(Unreachable, match="did not answer in time"):
        there.call("machine.facts", wait_s=0.5)


def test_errors_say_what_mends_them(there: SshMachine, tmp_path: Path) -> None:
    cases = {
        "no-such-host.invalid": "the host name is unknown",
        "boxb": "the target's Python is not installed there",
    }
    for host, words in cases.items():
        with pytest.raises(Unreachable, match=words) as caught:
            other(there, host, python="/no/python3").call("machine.facts")
        assert caught.value.hint


def test_an_old_python_is_refused_by_its_version(there: SshMachine) -> None:
    old = pythons("3.6", "3.7")
    if not old:
        pytest.skip("this machine has no Python older than 3.8")
    with pytest.raises(Unreachable, match=r"has Python 3\.[67], but gofer needs 3.8"):
        other(there, "boxa", python=str(old[0])).call("machine.facts")


def test_other_pythons_since_3_8_can_be_the_far_end(there: SshMachine) -> None:
    found = pythons("3.8", "3.9", "3.10", "3.12", "3.13")
    if not found:
        pytest.skip("this machine has no Python but that of the boxes")
    for python in found:
        machine = other(there, "boxa", python=str(python))
        assert machine.call("machine.facts").value["python"].split(".")[:2] == ["3", minor_of(python)]
        machine.close()


def minor_of(python: Path) -> str:
    done = run(LocalMachine(), [str(python), "-c", "import sys; print(sys.version_info[1])"])
    return done.output.strip()
