"""`mpirun` over two machines that share a store alone: it starts once and reaches the other by SSH."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home, until

pytestmark = ON_SSH_HOSTS

HELLO = r"""
import os, socket
rank, size = os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]
os.write(1, f"rank {rank} of {size} on {socket.gethostname()} in {os.getcwd()}\n".encode())
open(f"from-rank-{rank}", "w").write(socket.gethostname())
"""
MPIRUN = ["mpirun", *(["--allow-run-as-root"] if os.getuid() == 0 else [])]


@pytest.fixture
def pair(tmp_path: Path, ssh_hosts: SshHosts) -> Iterator[Home]:
    """Two machines of two GPUs each; the copy of the code must not lie in a folder that only one has."""
    home = Home(tmp_path)
    home.environ["PATH"] = f"{ssh_hosts.bin}:{home.environ['PATH']}"
    shared = tmp_path / "shared"
    shared.mkdir()
    home.configure(
        "target: pair\n"
        "targets: {pair: {kind: ssh, hosts: [hosta, hostb], gpus_per_node: 2, shared: true, store: both}}\n"
        f"stores: {{both: {{url: 'file://{shared}'}}}}\n"
    )
    (home.folder / "hello.py").write_text(HELLO)
    yield home


def let_in(machines: SshHosts) -> None:
    a, b = machines.machines["hosta"], machines.machines["hostb"]
    a.let_in(b, machines.folder / "client" / "key")
    b.let_in(a, machines.folder / "client" / "key")


def test_mpirun_starts_once_and_its_ranks_work_in_one_folder(pair: Home, ssh_hosts: SshHosts) -> None:
    let_in(ssh_hosts)
    words = ("submit", "--wait", "--json", "-n", "4", *MPIRUN, "python3", "hello.py")
    done = pair.gofer(*words, status=None)
    run = pair.view("last")
    log = pair.log(run["id"])
    assert (done.status, run["state"]) == (0, "succeeded"), log
    assert "`mpirun` reaches the other nodes by itself: it starts once, on the first of 2" in done.err
    # Open MPI itself warns when its `ssh` has started before its `setpgid`.
    lines = sorted(line for line in log.splitlines() if "plm:rsh: Warning: setpgid" not in line)
    assert [line.split()[1:4] for line in lines] == [[str(rank), "of", "4"] for rank in range(4)], log
    assert sorted(line.split()[5] for line in lines) == ["hosta", "hosta", "hostb", "hostb"]
    assert len({line.split()[7] for line in lines}) == 1
    # What the ranks of both machines wrote beside the code comes home.
    hosts = {pair.gofer("cat", f"{run['id']}:from-rank-{rank}").out for rank in range(4)}
    assert hosts == {"hosta", "hostb"}
    folder = pair.root / "shared" / "runs" / run["id"]
    until(lambda: not list(folder.glob("copy-*")), "the copy of the code is removed with the end of the run")


def test_machines_that_mpirun_cannot_reach_are_named(pair: Home, ssh_hosts: SshHosts) -> None:
    for box in ssh_hosts.machines.values():
        (box.home / ".ssh" / "id_ed25519").unlink(missing_ok=True)
    run = pair.finish("-n", "4", *MPIRUN, "hostname")
    assert run["state"] == "failed"
    why = pair.gofer("why", run["id"]).out
    assert "`mpirun` did not reach host" in why and "gofer does not set up SSH between nodes" in why
