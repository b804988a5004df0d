"""The machines over SSH are real ones, and their lines fail as told."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from clusters.errors import ClusterError
from clusters.fixtures import ON_SSH_BOXES
from clusters.fixtures import ssh_boxes as ssh_boxes
from clusters.fixtures import ssh_boxes_site as ssh_boxes_site
from clusters.line import Fault
from clusters.ssh import BOX_ADDRESSES, Boxes
from clusters.ssh_conf import NOISY, Noise

pytestmark = ON_SSH_BOXES

BOTH = pytest.mark.parametrize("name", ["boxa", "boxb"])


@BOTH
def test_each_box_has_its_own_name_home_and_python(ssh_boxes: Boxes, name: str) -> None:
    done = ssh_boxes.ssh(name, "hostname; cd; pwd; echo ~; command -v python3 >/dev/null && echo python3")
    home = str(ssh_boxes.boxes[name].home)
    assert (done.stdout.split(), done.stderr) == ([name, home, home, "python3"], "")


def test_the_second_box_is_reached_through_the_first_only(ssh_boxes: Boxes) -> None:
    assert ssh_boxes.ssh("boxb", "echo $SSH_CONNECTION").stdout.startswith(BOX_ADDRESSES["boxa"])
    port = str(ssh_boxes.lines["boxb"].port)
    direct = ["ssh", "-F", str(ssh_boxes.config), "-o", "ProxyJump=none", "boxb", "true"]
    done = subprocess.run(direct, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 255
    assert f"port {port}: Connection refused" in done.stderr
    ssh_boxes.kill("boxa")
    assert ssh_boxes.ssh("boxb", "true").returncode == 255


def test_the_boxes_reach_each_other_by_name(ssh_boxes: Boxes) -> None:
    greeting = "read -t 60 line </dev/tcp/boxb/22; echo $line"
    assert ssh_boxes.ssh("boxa", greeting).stdout.startswith("SSH-2.0-")


def test_an_unknown_host_key_is_refused(ssh_boxes: Boxes, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.touch()
    argv = ["ssh", "-F", str(ssh_boxes.config), "-o", f"UserKnownHostsFile={known}", "boxa", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_programs_that_call_ssh_find_the_boxes_on_the_path(ssh_boxes: Boxes) -> None:
    done = subprocess.run(
        ["ssh", "boxb", "hostname"], env=ssh_boxes.env, capture_output=True, timeout=60, check=True
    )
    assert done.stdout == b"boxb\n"


def test_a_noisy_login_prints_noise_everywhere(ssh_boxes: Boxes) -> None:
    ssh_boxes.boxes["boxa"].say(NOISY)
    done = ssh_boxes.ssh("boxa", "echo answer")
    assert done.stdout == f"{NOISY.stdout}\nanswer\n"
    assert NOISY.banner.strip() in done.stderr
    assert NOISY.stderr in done.stderr


def test_a_slow_login_takes_its_time(ssh_boxes: Boxes) -> None:
    ssh_boxes.boxes["boxa"].say(Noise(delay_s=30))
    with pytest.raises(subprocess.TimeoutExpired):
        ssh_boxes.ssh("boxa", "true", timeout_s=3)


def test_what_runs_on_a_box_dies_with_it_and_its_files_stay(ssh_boxes: Boxes) -> None:
    done = ssh_boxes.ssh(
        "boxb", "setsid sleep 300.75 >/dev/null 2>&1 </dev/null & echo kept > file; ps -e -o args="
    )
    assert "sleep 300.75" in done.stdout
    ssh_boxes.kill("boxb")
    running = subprocess.run(
        ["ps", "-e", "-o", "args="], capture_output=True, text=True, timeout=60, check=True
    )
    assert "sleep 300.75" not in running.stdout.splitlines()
    ssh_boxes.start("boxb")
    assert ssh_boxes.ssh("boxb", "cat file").stdout == "kept\n"


@BOTH
@pytest.mark.parametrize(
    "fault", [Fault("refuse"), Fault("drop", 5000), Fault("truncate", 5000)], ids=lambda f: f.kind
)
def test_a_spoilt_line_ends_the_connection_once(ssh_boxes: Boxes, name: str, fault: Fault) -> None:
    line = ssh_boxes.lines[name]
    before = line.set(fault, times=1).faults
    done = ssh_boxes.ssh(name, "head -c 100000 /dev/zero | tr '\\0' x")
    assert done.returncode == 255
    assert len(done.stdout) < 100_000
    assert line.counts().faults == before + 1
    assert ssh_boxes.ssh(name, "echo again").stdout == "again\n"


def test_a_fault_of_one_side_lets_the_other_through(ssh_boxes: Boxes) -> None:
    """What was sent arrived and was done, and only the answer is lost: the worst case for whoever submits."""
    line, gate = ssh_boxes.lines["boxa"], ssh_boxes.boxes["boxa"].home / "gate"
    done: list[subprocess.CompletedProcess[str]] = []
    command = "touch up; until [ -e gate ]; do sleep 0.05; done; touch done; echo answer"
    client = threading.Thread(target=lambda: done.append(ssh_boxes.ssh("boxa", command)))
    client.start()
    until_exists(gate.with_name("up"))
    line.set(Fault("drop", side="down"), now=True)
    gate.touch()
    client.join(timeout=110)
    assert (done[0].returncode, done[0].stdout) == (255, "")
    assert gate.with_name("done").exists()


def test_a_cut_ends_what_is_open_and_nothing_else(ssh_boxes: Boxes) -> None:
    line, home = ssh_boxes.lines["boxa"], ssh_boxes.boxes["boxa"].home
    done: list[subprocess.CompletedProcess[str]] = []
    client = threading.Thread(target=lambda: done.append(ssh_boxes.ssh("boxa", "touch cut; sleep 300")))
    client.start()
    until_exists(home / "cut")
    line.cut()
    client.join(timeout=110)
    assert done[0].returncode == 255
    assert ssh_boxes.ssh("boxa", "echo again").stdout == "again\n"


def test_a_paused_line_holds_everything_until_it_is_cleared(ssh_boxes: Boxes) -> None:
    line = ssh_boxes.lines["boxa"]
    line.pause()
    with socket.create_connection(("127.0.0.1", line.port), timeout=0.5) as client:
        with pytest.raises(TimeoutError):
            client.recv(1)
        line.clear()
        client.settimeout(60)
        assert client.recv(4) == b"SSH-"


def test_a_delayed_line_is_late(ssh_boxes: Boxes) -> None:
    line = ssh_boxes.lines["boxa"]
    line.set(Fault("delay", seconds=30.0))
    with pytest.raises(subprocess.TimeoutExpired):
        ssh_boxes.ssh("boxa", "true", timeout_s=2)


def test_a_stalled_answer_comes_when_the_fault_is_cleared(ssh_boxes: Boxes) -> None:
    line = ssh_boxes.lines["boxa"]
    line.set(Fault("stall", side="down"), times=1)
    with socket.create_connection(("127.0.0.1", line.port), timeout=0.5) as client:
        with pytest.raises(TimeoutError):
            client.recv(1)
        line.clear()
        client.settimeout(60)
        assert client.recv(4) == b"SSH-"


def test_killing_a_box_that_is_down_says_so(ssh_boxes: Boxes) -> None:
    ssh_boxes.kill("boxb")
    with pytest.raises(ClusterError, match="boxb is not running"):
        ssh_boxes.kill("boxb")


def until_exists(path: Path) -> None:
    deadline = time.monotonic() + 110
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)
