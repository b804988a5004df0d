"""A way into a job's node: an `sshd` of the job's own on loopback, for the public keys that the job names."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from simulators.azure.capacity import super_computer
from simulators.azure.jobs import SimulatedJob
from simulators.azure.node_processes import Gate

_PROGRAM = "/usr/sbin/sshd"
_CONFIG = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv HOME={folder} {marks}
Subsystem sftp internal-sftp
"""


def public_keys(job: SimulatedJob) -> str:
    """The keys that the job wants to let in; empty when it wants no shell."""
    for service in (job.properties.get("services") or {}).values():
        if str(service.get("jobServiceType", "")).lower() == "ssh":
            return str((service.get("properties") or {}).get("sshPublicKeys") or "")
    words = super_computer(job)
    return str(words.get("sshPublicKey") or "") if words.get("interactive") else ""


def nodes_with_shells(job: SimulatedJob) -> list[int]:
    """The first, unless the job wants its service on all of them."""
    wanted = [one.get("nodes") or {} for one in (job.properties.get("services") or {}).values()]
    everywhere = any(str(one.get("nodesValueType", "")).lower() == "all" for one in wanted)
    return list(range(len(job.nodes))) if everywhere else [0]


class Shell:
    """From `open_shell` to `close`."""

    def __init__(self, child: subprocess.Popen[bytes], port: int) -> None:
        self._child = child
        self.port = port

    def close(self) -> None:
        """Sessions end with it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()


def open_shell(
    job: SimulatedJob, folder: Path, port: int, marks: Mapping[str, str], gate: Gate
) -> Shell | None:
    """None when the job asks for none, or this machine has no `sshd`. Its process keeps the sessions.

    It and they have the variables `marks`, by which the simulator knows what its node runs.
    """
    keys = public_keys(job)
    if not keys or not os.access(_PROGRAM, os.X_OK) or shutil.which("ssh-keygen") is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host_key")]
    subprocess.run(make, check=True, stdin=subprocess.DEVNULL, timeout=30)
    (folder / "authorized_keys").write_text(keys.strip() + "\n")
    given = " ".join(f'"{name}={value}"' for name, value in marks.items())
    words = _CONFIG.format(port=port, folder=folder, marks=given)
    (folder / "sshd_config").write_text(words)
    argv = [_PROGRAM, "-D", "-e", "-f", str(folder / "sshd_config")]
    with open(folder / "sshd.log", "ab") as log, gate.passage():
        child = subprocess.Popen(
            argv,
            env={**os.environ, **marks},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and child.poll() is None:
        if b"listening" in (folder / "sshd.log").read_bytes():
            return Shell(child, port)
        time.sleep(0.02)
    return None
