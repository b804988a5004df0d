"""Commands in pods over pods/exec, on a real cluster, beside `kubectl exec`."""

from __future__ import annotations

import hashlib
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from clusters.fixtures import ON_K8S
from clusters.fixtures import k8s as k8s
from clusters.fixtures import k8s_site as k8s_site
from clusters.k8s.cluster import Kubernetes
from clusters.k8s.site import issue, write_kubeconfig
from clusters.line import Fault
from k8s import pods
from terminal import Terminal

from gofer.errors import CredentialError
from gofer.transport.kubernetes import kubeconfig
from gofer.transport.kubernetes.client import KubeApiError, KubeClient
from gofer.transport.kubernetes.exec_program import ContextName, exec_words
from gofer.transport.kubernetes.exec_stream import (
    LOST,
    PROTOCOLS,
    Beat,
    ExecRequest,
    LocalStreams,
    run_in_pod,
)
from gofer.transport.kubernetes.kubeconfig import KubeUser

pytestmark = ON_K8S

_MIB = 1 << 20


@pytest.fixture
def pod(k8s: Kubernetes) -> str:
    """A pod that sleeps."""
    pods.submit(k8s, pods.job("sleeping", "import time; time.sleep(3600)"))
    pods.until_running(k8s, "sleeping")
    (found,) = pods.pods_of(k8s, "sleeping")
    return str(found["metadata"]["name"])


def asked(pod: str, *command: str, terminal: bool = False) -> ExecRequest:
    return ExecRequest("default", pod, "main", command, terminal)


def words(
    k8s: Kubernetes, pod: str, *command: str, terminal: bool = False, file: Path | None = None
) -> list[str]:
    name = ContextName(str(file or k8s.site.kubeconfig))
    return exec_words(name, asked(pod, *command, terminal=terminal))


def run(
    k8s: Kubernetes, pod: str, *command: str, data: bytes = b"", file: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    argv = words(k8s, pod, *command, file=file)
    return subprocess.run(argv, input=data, capture_output=True, timeout=120, check=False)


def run_kubectl(
    k8s: Kubernetes, pod: str, *command: str, data: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    argv = [str(k8s.path / "kubectl"), "exec", "-i", pod, "-c", "main", "--", *command]
    env = {**os.environ, **k8s.exports}
    return subprocess.run(argv, input=data, capture_output=True, timeout=120, check=False, env=env)


def python(code: str) -> tuple[str, ...]:
    return ("python3", "-c", code)


def test_bytes_go_through_exactly_as_with_kubectl(k8s: Kubernetes, pod: str) -> None:
    data = bytes(range(256)) * 4096 * 8 + b"no end of line"
    found, peer = run(k8s, pod, "cat", data=data), run_kubectl(k8s, pod, "cat", data=data)
    assert found.returncode == peer.returncode == 0
    assert found.stdout == peer.stdout == data


def test_output_and_errors_are_apart_as_with_kubectl(k8s: Kubernetes, pod: str) -> None:
    code = "import os\nfor at in range(2000): os.write(1, b'%d\\n' % at); os.write(2, b'\\xff%d\\n' % at)"
    found, peer = run(k8s, pod, *python(code)), run_kubectl(k8s, pod, *python(code))
    assert (found.stdout, found.stderr) == (peer.stdout, peer.stderr)
    assert found.stdout.count(b"\n") == found.stderr.count(b"\n") == 2000


@pytest.mark.parametrize("status", [0, 1, 75, 126, 137, 255])
def test_the_exit_status_is_that_of_the_command(k8s: Kubernetes, pod: str, status: int) -> None:
    found, peer = (
        run(k8s, pod, "sh", "-c", f"exit {status}"),
        run_kubectl(k8s, pod, "sh", "-c", f"exit {status}"),
    )
    assert found.returncode == peer.returncode == status
    assert found.stderr == b""


def test_a_command_that_a_signal_ends(k8s: Kubernetes, pod: str) -> None:
    assert run(k8s, pod, "sh", "-c", "kill -9 $$").returncode == 137
    assert run_kubectl(k8s, pod, "sh", "-c", "kill -9 $$").returncode == 137


def test_a_program_that_is_not_in_the_image(k8s: Kubernetes, pod: str) -> None:
    found = run(k8s, pod, "no such", data=b"x")
    assert found.returncode == LOST
    assert b'exec: "no such": executable file not found' in found.stderr


def test_words_with_special_characters_arrive_unchanged(k8s: Kubernetes, pod: str) -> None:
    hostile = ["a b", "&x=1", "%41", "ü", "'\"", "$HOME", "*", "", "a\nb", "+"]
    found = run(k8s, pod, *python("import sys; print(ascii(sys.argv[1:]))"), *hostile)
    assert found.stdout.decode().strip() == ascii(hostile)


def test_the_command_sees_the_end_of_its_input_and_goes_on(k8s: Kubernetes, pod: str) -> None:
    code = "import sys, time; data = sys.stdin.read(); time.sleep(1); print(len(data))"
    assert run(k8s, pod, *python(code), data=b"x" * 100_000).stdout == b"100000\n"


def test_input_that_waits_keeps_no_output_back(k8s: Kubernetes, pod: str) -> None:
    # Not without reading all: containerd waits for the end of the input, and kubectl with it.
    code = "import os, sys; sys.stdout.buffer.write(b'y' * 3_000_000); sys.stdin.buffer.read()"
    found = run(k8s, pod, *python(code), data=b"x" * 3_000_000)
    assert (found.returncode, len(found.stdout)) == (0, 3_000_000)


def test_the_older_protocol_has_no_end_of_input(k8s: Kubernetes, pod: str, tmp_path: Path) -> None:
    context = kubeconfig.load(file=str(k8s.site.kubeconfig))
    with open(tmp_path / "out", "wb") as out, open(os.devnull, "rb") as nothing:
        files = LocalStreams(nothing.fileno(), out.fileno(), out.fileno())
        request = asked(pod, "sh", "-c", "echo hello; exit 3")
        assert run_in_pod(context, request, files, protocols=PROTOCOLS[1:]).status == 3
    assert (tmp_path / "out").read_bytes() == b"hello\n"


def test_a_slow_reader_slows_the_command_down_and_loses_nothing(k8s: Kubernetes, pod: str) -> None:
    size = 60 * _MIB
    lines = (
        "import os",
        f"for at in range({size} // 65536): os.write(1, bytes([at % 256]) * 65536)",
        "open('/tmp/done', 'w')",
    )
    with subprocess.Popen(
        words(k8s, pod, *python("\n".join(lines))), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout
        first = child.stdout.read(1)
        time.sleep(2)
        assert run(k8s, pod, "ls", "/tmp/done").returncode != 0  # the command waits
        digest = hashlib.sha256(first)
        while piece := child.stdout.read(_MIB):
            digest.update(piece)
        assert child.wait(60) == 0
    expected = hashlib.sha256(b"".join(bytes([at % 256]) * 65536 for at in range(size // 65536)))
    assert digest.hexdigest() == expected.hexdigest()


def test_a_reader_that_leaves_ends_the_stream(k8s: Kubernetes, pod: str) -> None:
    with subprocess.Popen(words(k8s, pod, "yes"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.read(4) == b"y\ny\n"
        child.stdout.close()
        assert child.wait(60) == 128 + signal.SIGPIPE


def test_a_lost_connection_is_an_error_of_its_own(k8s: Kubernetes, pod: str) -> None:
    line, file = k8s.open_line("exec-cut")
    argv = words(k8s, pod, "sh", "-c", "echo begun; sleep 60", file=file)
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        assert child.stdout and child.stderr
        assert child.stdout.readline() == b"begun\n"
        line.cut()
        assert child.wait(60) == LOST
        assert b"error: the connection to the pod was lost" in child.stderr.read()


def test_a_refused_connection_is_an_error_of_its_own(k8s: Kubernetes, pod: str) -> None:
    line, file = k8s.open_line("exec-refused")
    line.set(Fault("refuse"))
    found = run(k8s, pod, "true", file=file)
    assert found.returncode == LOST
    assert b"cannot be reached" in found.stderr and b"hint:" in found.stderr


def test_a_silent_server_is_given_up(k8s: Kubernetes, pod: str, tmp_path: Path) -> None:
    line, file = k8s.open_line("exec-silent")
    context = kubeconfig.load(file=str(file))
    inner, outer = os.pipe()
    with (
        open(tmp_path / "out", "wb") as out,
        closing(os.fdopen(outer, "wb")),
        os.fdopen(inner, "rb") as stdin,
    ):
        files = LocalStreams(stdin.fileno(), out.fileno(), out.fileno())
        request = asked(pod, "sh", "-c", "echo hello; sleep 3600")
        timer = threading.Timer(3.0, line.pause)
        timer.start()
        began = time.monotonic()
        end = run_in_pod(context, request, files, beat=Beat(0.2, 2.0))
        timer.join()
    assert end.status == LOST and end.problem == "the server has sent nothing for 2 s"
    assert time.monotonic() - began > 3.0  # its answers to pings kept the connection before
    assert (tmp_path / "out").read_bytes() == b"hello\n"


def test_a_killed_client_leaves_the_pod_alone(k8s: Kubernetes, pod: str) -> None:
    with subprocess.Popen(words(k8s, pod, "yes"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.read(4) == b"y\ny\n"
        child.kill()
    assert run(k8s, pod, "echo", "still here").stdout == b"still here\n"


def test_a_terminal_has_a_size_and_ctrl_c_reaches_the_command(
    k8s: Kubernetes, pod: str, tmp_path: Path
) -> None:
    argv = words(k8s, pod, "sh", terminal=True)
    with Terminal(argv, cwd=tmp_path, env=dict(os.environ)) as screen:
        screen.resize(40, 100)
        screen.until("$ ")
        screen.type("stty size; tty\r")
        screen.until("/dev/pts/")
        screen.type("while stty size | grep -qv '^31 77'; do sleep 0.1; done; echo re''sized\r")
        screen.resize(31, 77)
        screen.until("resized")
        screen.type("sleep 1000 || echo inter''rupted\r")
        time.sleep(0.5)
        screen.type("\x03")
        screen.type("echo still''here; exit 5\r")
        screen.until("stillhere")
        assert screen.end() == 5
        assert "40 100" in screen.shown


def test_the_terminal_is_as_before_after_a_signal(k8s: Kubernetes, pod: str) -> None:
    master, inner = pty.openpty()
    before = termios.tcgetattr(inner)
    argv = words(k8s, pod, "sh", "-c", "echo begun; sleep 60", terminal=True)
    with subprocess.Popen(argv, stdin=inner, stdout=inner, stderr=inner, start_new_session=True) as child:
        shown = b""
        while b"begun" not in shown:
            shown += os.read(master, 1000)
        assert termios.tcgetattr(inner) != before
        child.terminate()
        assert child.wait(60) == 128 + signal.SIGTERM
    assert termios.tcgetattr(inner) == before
    os.close(inner)
    os.close(master)


def test_the_right_to_pods_exec_is_asked_for(k8s: Kubernetes, pod: str, tmp_path: Path) -> None:
    file = write_kubeconfig(k8s.site, tmp_path / "config", issue(k8s.site, "mallory"))
    found = run(k8s, pod, "true", file=file)
    assert found.returncode == LOST
    assert b'User "mallory" cannot' in found.stderr and b"pods/exec" in found.stderr


def test_a_pod_that_does_not_exist(k8s: Kubernetes) -> None:
    with pytest.raises(KubeApiError, match='pods "nothing" not found') as caught:
        run_in_pod(kubeconfig.load(file=str(k8s.site.kubeconfig)), asked("nothing", "true"), LocalStreams())
    assert caught.value.status == 404


def test_a_token_that_was_revoked_is_renewed_once(k8s: Kubernetes, pod: str, tmp_path: Path) -> None:
    k8s.kubectl(
        "create",
        "clusterrolebinding",
        "all",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:default",
    )
    token = k8s.kubectl("create", "token", "default").strip()
    admin = kubeconfig.load(file=str(k8s.site.kubeconfig))
    file = tmp_path / "token"
    file.write_text("revoked")
    context = admin._replace(user=KubeUser(token_file=str(file)))
    with pytest.raises(CredentialError, match="does not accept the credential"):
        run_in_pod(context, asked(pod, "true"), LocalStreams())
    context = admin._replace(user=KubeUser(token=token))
    with open(os.devnull, "r+b") as nothing:
        files = LocalStreams(nothing.fileno(), nothing.fileno(), nothing.fileno())
        assert run_in_pod(context, asked(pod, "sh", "-c", "exit 4"), files).status == 4
    k8s.kubectl("delete", "clusterrolebinding", "all")


def test_a_proxy_passes_the_stream_on(k8s: Kubernetes, pod: str) -> None:
    context = kubeconfig.load(file=str(k8s.site.kubeconfig))
    with proxy() as (address, seen), open(os.devnull, "r+b") as nothing:
        through = context._replace(cluster=context.cluster._replace(proxy_url=address))
        files = LocalStreams(nothing.fileno(), nothing.fileno(), nothing.fileno())
        assert run_in_pod(through, asked(pod, "sh", "-c", "exit 6"), files).status == 6
        assert KubeClient(through).get("/version")["major"] == "1"
    assert len(seen) == 2 and all(line.startswith(f"CONNECT {k8s.site.control_address}:") for line in seen)


@contextmanager
def proxy() -> Iterator[tuple[str, list[str]]]:
    """A proxy that knows CONNECT only, and the first lines of what it was asked."""
    seen: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    near, _ = server.accept()
                except OSError:
                    return
                head = b""
                while b"\r\n\r\n" not in head:
                    head += near.recv(1)
                seen.append(head.split(b"\r\n")[0].decode())
                host, _, port = head.split(b" ")[1].decode().rpartition(":")
                far = socket.create_connection((host, int(port)))
                near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=copy, args=(one, other), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", seen
        server.shutdown(socket.SHUT_RDWR)


def copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.mark.slow
def test_a_hundred_megabytes_each_way(k8s: Kubernetes, pod: str, tmp_path: Path) -> None:
    data = os.urandom(_MIB) * 100
    (tmp_path / "data").write_bytes(data)
    with open(tmp_path / "data", "rb") as stdin, open(tmp_path / "back", "wb") as stdout:
        argv = words(k8s, pod, "cat")
        assert subprocess.run(argv, stdin=stdin, stdout=stdout, timeout=300, check=False).returncode == 0
    assert (tmp_path / "back").read_bytes() == data


def test_the_module_is_a_program(k8s: Kubernetes) -> None:
    assert words(k8s, "p", "ls", "-l")[:3] == [
        sys.executable,
        "-m",
        "gofer.transport.kubernetes.exec_program",
    ]
