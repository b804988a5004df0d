"""A run over SSH that writes more than `keep`: the working copy stays there until `prune` takes it."""

from __future__ import annotations

from pathlib import Path

from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home
from slurm.test_kept_copies import WRITES, age, check_fetched, files_of, prunable

pytestmark = ON_SSH_HOSTS
BOTH = "targets: {box: {kind: ssh, hosts: [hosta, hostb], gpus_per_node: 4}}\ntarget: box\n"


def own_home(tmp_path: Path, machines: SshHosts) -> Home:
    home = Home(tmp_path)
    home.environ["PATH"] = f"{machines.bin}:{home.environ['PATH']}"
    home.configure(BOTH)
    (home.folder / "train.txt").write_text("code\n")
    return home


def kept_copies(machines: SshHosts) -> list[Path]:
    return [path for box in machines.machines.values() for path in box.home.glob(".gofer/engine/*/kept/*")]


def test_the_copy_stays_is_fetched_and_goes_after_two_weeks(tmp_path: Path, ssh_hosts: SshHosts) -> None:
    home = own_home(tmp_path, ssh_hosts)
    home.gofer("submit", "--wait", "--keep", "2k", "sh", "-c", WRITES)
    (copy,) = kept_copies(ssh_hosts)
    home.gofer("extract", "last", str(tmp_path / "out"))
    check_fetched(tmp_path / "out")
    age(copy, 13)
    assert prunable(home, "--dry-run") == []
    age(copy, 15)
    assert [one["removed"] for one in prunable(home, "--dry-run")] == [False] and copy.exists()
    assert [one["removed"] for one in prunable(home, "-y")] == [True] and not copy.exists()
    done = home.gofer("extract", "last", str(tmp_path / "later"), status=1)
    words = done.err.splitlines()[-1]
    assert "cannot be fetched: host" in words and " has no folder " in words
    assert files_of(tmp_path / "later" / "files") == ["outputs/o"]
