"""`gofer ssh`, tunnels and the logs of pods, on a real cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes
from home import until
from k8s import pods
from k8s.k8s_home import K8sHome
from terminal import Terminal

from gofer.backends.base import RunRef
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.backends.kubernetes.pod_logs import PodLogs
from gofer.backends.kubernetes.shell import tunnel_command
from gofer.ops.session import Session

pytestmark = ON_K8S


@pytest.fixture
def home(tmp_path: Path, k8s: Kubernetes) -> Iterator[K8sHome]:
    home = K8sHome(tmp_path / "it's a home", k8s)
    yield home
    home.close()


def connection(home: K8sHome) -> KubernetesConnection:
    """What the backend of the target works with."""
    with Session(home.folder, home.environ, emit=lambda _: None) as session:
        backend = session.backend("lab")
        found = backend._connection  # type: ignore[attr-defined]
        assert isinstance(found, KubernetesConnection)
        return found


def running(home: K8sHome, *words: str) -> str:
    """The id of a run that has printed `begun`."""
    run = home.submit(*words, "sh", "-c", "echo begun; exec sleep 1000")
    until(lambda: "begun" in home.gofer("logs", run, status=None).out, "the run")
    return run


def enter(home: K8sHome, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        home.argv("ssh", *words),
        cwd=home.folder,
        env=home.environ,
        input=data,
        capture_output=True,
        timeout=120,
        check=False,
    )


def test_a_command_has_the_environment_and_the_folder_of_the_run(home: K8sHome) -> None:
    (home.folder / "here.txt").write_text("code of the run")
    run = home.gofer(
        "submit", "-Q", "--env", "COLOUR=it's blue", "sh", "-c", "echo begun; exec sleep 1000"
    ).out.strip()
    until(lambda: "begun" in home.gofer("logs", run, status=None).out, "the run")
    code = "import os, sys; print(open('here.txt').read(), os.environ['COLOUR'], os.environ['GOFER_RUN_ID'])"
    found = enter(home, run, "python3", "-c", f"{code}; print('bad', file=sys.stderr); sys.exit(7)")
    assert (found.returncode, found.stderr) == (7, b"bad\n")
    assert found.stdout.decode() == f"code of the run it's blue {run}\n"
    data = bytes(range(256)) * 1000
    assert enter(home, run, "cat", data=data).stdout == data


def test_a_shell_on_a_terminal(home: K8sHome) -> None:
    run = running(home)
    with Terminal(home.argv("ssh", run), cwd=home.folder, env=home.environ) as screen:
        screen.type("stty size; echo $GOFER_RUN_ID; exit 3\r")
        assert screen.end() == 3
    assert run in screen.shown and "inside" in screen.shown


def test_each_node_has_a_shell(home: K8sHome) -> None:
    run = running(home, "--nodes", "2")
    until(lambda: len(pods.pods_of(home.k8s, run)) == 2, "two pods")
    hosts = []
    for node in (0, 1):
        until(lambda node=node: enter(home, "--node", str(node), run, "true").returncode == 0, f"node {node}")  # type: ignore[misc]
        found = enter(home, "--node", str(node), run, "sh", "-c", "echo $GOFER_NODE_RANK; hostname")
        rank, host = found.stdout.decode().split()
        assert rank == str(node), found
        hosts.append(host)
    assert hosts == [f"{run}-0", f"{run}-1"]


def test_a_node_that_does_not_run_has_no_shell(home: K8sHome, k8s: Kubernetes) -> None:
    pods.submit(k8s, pods.job("others", "import time; time.sleep(600)", gpus=4))
    pods.until_running(k8s, "others")
    run = home.submit("-n", "12", "true")  # 3 nodes; the cluster has 2 free ones
    until(lambda: sum(bool(pod["spec"].get("nodeName")) for pod in pods.pods_of(k8s, run)) == 2, "its pods")
    waiting = next(pod for pod in pods.pods_of(k8s, run) if not pod["spec"].get("nodeName"))
    index = waiting["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]
    found = enter(home, "--node", index, run, "true")
    assert found.returncode == 1
    assert b"does not run" in found.stderr and b"gofer why" in found.stderr


def test_a_tunnel_leads_to_sockets_in_the_pod(home: K8sHome, tmp_path: Path) -> None:
    code = (
        "import socket, threading\n"
        "def echo(server):\n"
        "    while True:\n"
        "        near, _ = server.accept()\n"
        "        data = b''.join(iter(lambda: near.recv(65536), b''))\n"
        "        near.sendall(data[::-1]); near.close()\n"
        "tcp = socket.create_server(('127.0.0.1', 0))\n"
        "unix = socket.socket(socket.AF_UNIX); unix.bind('/tmp/a socket'); unix.listen()\n"
        "threading.Thread(target=echo, args=(unix,)).start()\n"
        "print('port', tcp.getsockname()[1], flush=True)\n"
        "echo(tcp)\n"
    )
    run = home.submit("python3", "-u", "-c", code)
    until(lambda: "port" in home.gofer("logs", run, status=None).out, "the server")
    port = home.gofer("logs", run).out.split()[-1]
    found, data = connection(home), os.urandom(3_000_000)
    for address in (f"127.0.0.1:{port}", f":{port}", "/tmp/a socket"):
        argv = tunnel_command(found, RunRef(run), address)
        done = subprocess.run(
            argv, input=data, capture_output=True, timeout=120, check=False, env=home.environ
        )
        assert (done.returncode, done.stdout == data[::-1]) == (0, True), done.stderr
    argv = tunnel_command(found, RunRef(run), "127.0.0.1:1")
    done = subprocess.run(argv, input=b"", capture_output=True, timeout=120, check=False, env=home.environ)
    assert done.returncode == 126
    assert done.stderr.startswith(b"error: cannot connect to 127.0.0.1:1")


def test_the_log_of_a_pod_is_read_by_pieces(home: K8sHome, k8s: Kubernetes) -> None:
    code = (
        "import sys, time\n"
        "for at in range(5000): print(at)\n"
        "print('rest', end='', flush=True); time.sleep(2); print(' of it'); print('no end', end='')\n"
    )
    pods.submit(k8s, pods.job("counting", code, count=2))
    logs = PodLogs(connection(home))
    until(lambda: len(logs.native_logs("counting")) == 2, "two pods")
    names = logs.native_logs("counting")
    assert [name.rpartition("-")[0] for name in names] == ["counting-0", "counting-1"]
    expected = "".join(f"{at}\n" for at in range(5000)) + "rest of it\nno end"
    seen = b""
    while pods.status(k8s, "counting").get("succeeded") != 2 or logs.read_native(
        "counting", names[0], len(seen)
    ):
        seen += logs.read_native("counting", names[0], len(seen))
    assert seen.decode() == expected
    assert logs.native_size("counting", names[0]) == len(expected)
    other = PodLogs(connection(home))  # one that has seen nothing before
    assert other.read_native("counting", names[1], len(expected) - 10).decode() == expected[-10:]
    assert other.native_size("counting", "nothing.main.log") is None


def test_what_the_agent_said_is_shown_when_the_run_has_no_log(home: K8sHome, k8s: Kubernetes) -> None:
    run = running(home)
    until(lambda: home.view(run)["state"] == "running", f"the start of {run}")
    (name,) = PodLogs(connection(home)).native_logs(run)
    assert name.startswith(f"{run}-0-") and name.endswith(".gofer.log")


def test_a_machine_without_websockets_says_what_to_install(home: K8sHome) -> None:
    run = running(home)
    # As on a machine without the extra.
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'websockets' else real(name, *rest)\n"
        "from gofer.cli.main import entry; sys.argv = ['gofer', *sys.argv[1:]]; entry()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "ssh", run, "true"],
        cwd=home.folder,
        env=home.environ,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert b"pip install 'gofer[kubernetes]'" in done.stderr
