"""The machines over SSH are real ones, and their lines fail as told."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from clusters.errors import ClusterError
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.line import Fault
from clusters.ssh import HOST_ADDRESSES, SshHosts
from clusters.ssh_conf import NOISY, Noise

pytestmark = ON_SSH_HOSTS

BOTH = pytest.mark.parametrize("name", ["hosta", "hostb"])


@BOTH
def test_each_box_has_its_own_name_home_and_python(ssh_hosts: SshHosts, name: str) -> None:
    done = ssh_hosts.ssh(name, "hostname; cd; pwd; echo ~; command -v python3 >/dev/null && echo python3")
    home = str(ssh_hosts.machines[name].home)
    assert (done.stdout.split(), done.stderr) == ([name, home, home, "python3"], "")


def test_the_second_box_is_reached_through_the_first_only(ssh_hosts: SshHosts) -> None:
    assert ssh_hosts.ssh("hostb", "echo $SSH_CONNECTION").stdout.startswith(HOST_ADDRESSES["hosta"])
    port = str(ssh_hosts.lines["hostb"].port)
    direct = ["ssh", "-F", str(ssh_hosts.config), "-o", "ProxyJump=none", "hostb", "true"]
    done = subprocess.run(direct, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 255
    assert f"port {port}: Connection refused" in done.stderr
    ssh_hosts.kill("hosta")
    assert ssh_hosts.ssh("hostb", "true").returncode == 255


def test_the_boxes_reach_each_other_by_name(ssh_hosts: SshHosts) -> None:
    greeting = "read -t 60 line </dev/tcp/hostb/22; echo $line"
    assert ssh_hosts.ssh("hosta", greeting).stdout.startswith("SSH-2.0-")


def test_an_unknown_host_key_is_refused(ssh_hosts: SshHosts, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.touch()
    argv = ["ssh", "-F", str(ssh_hosts.config), "-o", f"UserKnownHostsFile={known}", "hosta", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_programs_that_call_ssh_find_the_boxes_on_the_path(ssh_hosts: SshHosts) -> None:
    done = subprocess.run(
        ["ssh", "hostb", "hostname"], env=ssh_hosts.env, capture_output=True, timeout=60, check=True
    )
    assert done.stdout == b"hostb\n"


def test_a_noisy_login_prints_noise_everywhere(ssh_hosts: SshHosts) -> None:
    ssh_hosts.machines["hosta"].set_noise(NOISY)
    done = ssh_hosts.ssh("hosta", "echo answer")
    assert done.stdout == f"{NOISY.stdout}\nanswer\n"
    assert NOISY.banner.strip() in done.stderr
    assert NOISY.stderr in done.stderr


def test_a_slow_login_takes_its_time(ssh_hosts: SshHosts) -> None:
    ssh_hosts.machines["hosta"].set_noise(Noise(delay_s=30))
    with pytest.raises(subprocess.TimeoutExpired):
        ssh_hosts.ssh("hosta", "true", timeout_s=3)


def test_what_runs_on_a_box_dies_with_it_and_its_files_stay(ssh_hosts: SshHosts) -> None:
    done = ssh_hosts.ssh(
        "hostb", "setsid sleep 300.75 >/dev/null 2>&1 </dev/null & echo kept > file; ps -e -o args="
    )
    assert "sleep 300.75" in done.stdout
    ssh_hosts.kill("hostb")
    running = subprocess.run(
        ["ps", "-e", "-o", "args="], capture_output=True, text=True, timeout=60, check=True
    )
    assert "sleep 300.75" not in running.stdout.splitlines()
    ssh_hosts.start("hostb")
    assert ssh_hosts.ssh("hostb", "cat file").stdout == "kept\n"


@BOTH
@pytest.mark.parametrize(
    "fault", [Fault("refuse"), Fault("drop", 5000), Fault("truncate", 5000)], ids=lambda f: f.kind
)
def test_a_corrupted_line_ends_the_connection_once(ssh_hosts: SshHosts, name: str, fault: Fault) -> None:
    line = ssh_hosts.lines[name]
    before = line.set(fault, times=1).faults
    done = ssh_hosts.ssh(name, "head -c 100000 /dev/zero | tr '\\0' x")
    assert done.returncode == 255
    assert len(done.stdout) < 100_000
    assert line.counts().faults == before + 1
    assert ssh_hosts.ssh(name, "echo again").stdout == "again\n"


def test_a_fault_of_one_side_lets_the_other_through(ssh_hosts: SshHosts) -> None:
    """The request was carried out, and only the answer is lost: the worst case for a submission."""
    line, gate = ssh_hosts.lines["hosta"], ssh_hosts.machines["hosta"].home / "gate"
    done: list[subprocess.CompletedProcess[str]] = []
    command = "touch up; until [ -e gate ]; do sleep 0.05; done; touch done; echo answer"
    client = threading.Thread(target=lambda: done.append(ssh_hosts.ssh("hosta", command)))
    client.start()
    until_exists(gate.with_name("up"))
    line.set(Fault("drop", side="down"), now=True)
    gate.touch()
    client.join(timeout=110)
    assert (done[0].returncode, done[0].stdout) == (255, "")
    assert gate.with_name("done").exists()


def test_a_cut_ends_what_is_open_and_nothing_else(ssh_hosts: SshHosts) -> None:
    line, home = ssh_hosts.lines["hosta"], ssh_hosts.machines["hosta"].home
    done: list[subprocess.CompletedProcess[str]] = []
    client = threading.Thread(target=lambda: done.append(ssh_hosts.ssh("hosta", "touch cut; sleep 300")))
    client.start()
    until_exists(home / "cut")
    line.cut()
    client.join(timeout=110)
    assert done[0].returncode == 255
    assert ssh_hosts.ssh("hosta", "echo again").stdout == "again\n"


def test_a_paused_line_holds_everything_until_it_is_cleared(ssh_hosts: SshHosts) -> None:
    line = ssh_hosts.lines["hosta"]
    line.pause()
    with socket.create_connection(("127.0.0.1", line.port), timeout=0.5) as client:
        with pytest.raises(TimeoutError):
            client.recv(1)
        line.clear()
        client.settimeout(60)
        assert client.recv(4) == b"SSH-"


def test_a_delayed_line_is_late(ssh_hosts: SshHosts) -> None:
    line = ssh_hosts.lines["hosta"]
    line.set(Fault("delay", seconds=30.0))
    with pytest.raises(subprocess.TimeoutExpired):
        ssh_hosts.ssh("hosta", "true", timeout_s=2)


def test_a_stalled_answer_comes_when_the_fault_is_cleared(ssh_hosts: SshHosts) -> None:
    line = ssh_hosts.lines["hosta"]
    line.set(Fault("stall", side="down"), times=1)
    with socket.create_connection(("127.0.0.1", line.port), timeout=0.5) as client:
        with pytest.raises(TimeoutError):
            client.recv(1)
        line.clear()
        client.settimeout(60)
        assert client.recv(4) == b"SSH-"


def test_killing_a_box_that_is_down_says_so(ssh_hosts: SshHosts) -> None:
    ssh_hosts.kill("hostb")
    with pytest.raises(ClusterError, match="hostb is not running"):
        ssh_hosts.kill("hostb")


def until_exists(path: Path) -> None:
    deadline = time.monotonic() + 110
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)
