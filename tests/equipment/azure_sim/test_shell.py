"""A shell in a job's node: the job's own sshd, reached by the tag of ITP or through a WebSocket."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from home import until
from services.azure import Azure, azure_sim
from services.azure_jobs import alive, submit

from simulators.azure.websocket import frame, read_frame

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-shell")]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert shutil.which("ssh-keygen") and os.access("/usr/sbin/sshd", os.X_OK), "these tests need OpenSSH"
    path = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=60)
    return path


def services(key: Path) -> dict[str, object]:
    words = {"sshPublicKeys": key.with_suffix(".pub").read_text()}
    return {"my_ssh": {"jobServiceType": "SSH", "properties": words}}


def shown(azure: Azure, name: str, status: str) -> dict[str, str]:
    """The ssh service of a job when it has this status, and the job's tags."""
    deadline = time.monotonic() + 120
    while True:
        _, job = azure.arm("GET", f"/jobs/{name}")
        service = job["properties"]["services"]["my_ssh"]
        if service["status"] == status:
            return {"endpoint": service["endpoint"] or "", **job["properties"]["tags"]}
        assert time.monotonic() < deadline, service
        time.sleep(0.1)


def test_the_tag_of_itp_leads_to_a_shell(azure: Azure, key: Path) -> None:
    submit(azure, "itp-shell", "sleep 600", compute="itp-cluster", services=services(key))
    left = "setsid sleep 600 >/dev/null 2>&1 </dev/null & echo in $AZUREML_RUN_ID; echo $!"
    argv, _ = way_in(azure, "itp-shell", key)
    done = subprocess.run(
        [*argv, left], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
    word, pid = done.stdout.splitlines()
    assert word == "in itp-shell", done.stderr
    assert alive(pid)
    azure.arm("POST", "/jobs/itp-shell/cancel")
    azure.wait("itp-shell")
    assert shown(azure, "itp-shell", "Stopped")["endpoint"] == ""
    until(lambda: not alive(pid), "what was started by hand is gone too")


def way_in(azure: Azure, name: str, key: Path) -> tuple[list[str], int]:
    """The beginning of a command line that runs a command in the job's node, and the port of its sshd."""
    place = shown(azure, name, "Running")["ssh"].removeprefix("ssh://")
    user, _, port = place.partition("@127.0.0.1:")
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes"]
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-i", str(key), *words, "-p", port, f"{user}@127.0.0.1"], int(port)


def test_a_websocket_carries_ssh_for_a_client_with_a_token(azure: Azure, key: Path) -> None:
    submit(azure, "aml-shell", "sleep 600", services=services(key))
    endpoint = shown(azure, "aml-shell", "Running")["endpoint"]
    path = urlsplit(endpoint).path
    assert b" 101 " in _opened(azure, path, azure.token())[0]
    _, line = _opened(azure, path, azure.token())
    opcode, data = read_frame(line)
    assert (opcode, data[:8]) == (2, b"SSH-2.0-")
    line.sendall(frame(b"SSH-2.0-test\r\n"))
    assert read_frame(line)[0] == 2
    line.close()
    assert b" 101 " not in _opened(azure, path, "nothing")[0]
    azure.arm("POST", "/jobs/aml-shell/cancel")
    azure.wait("aml-shell")


def _opened(azure: Azure, path: str, token: str) -> tuple[bytes, ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(azure.ca))
    plain = socket.create_connection(("127.0.0.1", azure.port), timeout=60)
    line = context.wrap_socket(plain, server_hostname="127.0.0.1")
    words = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    words += (
        f"Authorization: Bearer {token}\r\nSec-WebSocket-Key: dGVzdA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    line.sendall(words.encode())
    head = b""
    while b"\r\n\r\n" not in head:
        more = line.recv(1)
        if not more:
            break
        head += more
    return head, line


def test_nothing_of_a_job_outlives_a_simulator_that_is_closed(tmp_path: Path, key: Path) -> None:
    """Not its processes, not what they put into sessions of their own, not its sshd and who came in by it."""
    pids = tmp_path / "pids"
    with azure_sim(tmp_path / "azure") as own:
        script = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 600' & echo $$ >> {pids}; sleep 600; :"
        submit(own, "kept", script, compute="itp-cluster", services=services(key))
        argv, port = way_in(own, "kept", key)
        inside = subprocess.Popen([*argv, f"echo $$ >> {pids}; exec sleep 600"], stdin=subprocess.DEVNULL)
        until(lambda: pids.exists() and len(pids.read_text().split()) == 3, "all run")
        assert all(alive(pid) for pid in pids.read_text().split())
    assert inside.wait(60) != 0
    assert not any(alive(pid) for pid in pids.read_text().split())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)
