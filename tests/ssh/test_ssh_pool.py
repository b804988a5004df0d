"""A pool of machines that share nothing, as docs/ssh.md prints it, used from several folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.line import Fault
from clusters.ssh import SshHosts
from home import Home, until

pytestmark = ON_SSH_HOSTS

POOL = "targets: {pool: {kind: ssh, hosts: [hostb, hosta]}}\n"
# Prints its machine, then runs until it is stopped.
HOLD = ("bash", "-c", "hostname; exec sleep 600")


@pytest.fixture
def home(tmp_path: Path, ssh_hosts: SshHosts) -> Iterator[Home]:
    made = Home(tmp_path)
    made.environ["PATH"] = f"{ssh_hosts.bin}:{made.environ['PATH']}"
    made.configure(POOL)
    yield made


def host_of(home: Home, run_id: str) -> str:
    def log() -> str:
        return home.gofer("logs", run_id, status=None, cwd=home.root).out.strip()

    return until(log, f"the log of {run_id}")


def test_runs_go_to_all_machines_and_every_verb_reaches_the_right_one(home: Home, tmp_path: Path) -> None:
    nodes = home.gofer("-c", "pool", "list", "nodes").out
    assert all(host in nodes for host in ("hosta", "hostb"))
    elsewhere = tmp_path / "an other"
    elsewhere.mkdir()
    runs = [home.submit("-c", "pool", *HOLD) for _ in range(2)]
    assert sorted(host_of(home, run) for run in runs) == ["hosta", "hostb"]
    listed = home.gofer("list", "runs", cwd=elsewhere)
    assert listed.out.count("running") == 2, listed
    assert "warning" not in listed.err
    for run in runs:
        shown = home.gofer("q", run, cwd=elsewhere).out
        assert "running" in shown and f"\nhosts      {host_of(home, run)}\n" in shown
        assert f"\nshell      gofer ssh {run.rpartition('-')[2]}\n" in shown
        assert " runs\n" in home.gofer("why", run, cwd=elsewhere).out
        there = home.gofer("ssh", run, "hostname", cwd=elsewhere).out.strip()
        assert there == host_of(home, run)
    assert home.gofer("abort", "--grace", "0s", *runs, cwd=elsewhere).out.split()[1::2] == ["cancelled"] * 2
    again = home.gofer("resubmit", "-Q", runs[0], cwd=elsewhere).out.strip()
    assert host_of(home, again) in ("hosta", "hostb")
    (home.folder / "gofer.yaml").unlink()
    home.gofer("abort", "--grace", "0s", again, cwd=elsewhere)
    assert home.view(again)["state"] == "cancelled"


def test_a_run_waits_for_another_one_on_its_machine(home: Home) -> None:
    """Also when another machine has more room."""
    first = home.submit("-c", "pool", *HOLD)
    second = home.submit("-c", "pool", "--after", f"{first}:any", "hostname")
    host = host_of(home, first)
    home.gofer("abort", "--grace", "0s", first)
    assert host_of(home, second) == host


def test_a_run_that_waits_says_why_from_any_folder(home: Home, tmp_path: Path) -> None:
    cpus = max(int(line.split()[2].partition("/")[2]) for line in _nodes(home))
    holding = [home.submit("-c", "pool", "--cpus", str(cpus), *HOLD) for _ in range(2)]
    assert len({host_of(home, run) for run in holding}) == 2
    third = home.submit("-c", "pool", "--cpus", str(cpus), "true")
    output = home.gofer("why", third, cwd=tmp_path).out
    assert "CPU" in output and "held by" in output
    home.gofer("abort", "--grace", "0s", third, *holding, cwd=tmp_path)


def test_a_run_is_continued_on_the_machine_that_has_its_files(home: Home) -> None:
    """Also when another machine has more room."""
    first = home.submit("-c", "pool", "--wait", "sh", "-c", "hostname; cat ck; echo step >> ck")
    host = host_of(home, first).split()[0]
    held = [home.submit("-c", "pool", *HOLD) for _ in range(2)]
    for run in held:
        if host_of(home, run) != host:
            home.gofer("abort", "--grace", "0s", run)
    again = home.gofer("resubmit", "-Q", "--continue", first).out.strip()
    home.gofer("wait", again)
    assert home.log(again).split() == [host, "step"]
    home.gofer("abort", "--grace", "0s", *held)


def _nodes(home: Home) -> list[str]:
    return home.gofer("-c", "pool", "list", "nodes").out.splitlines()[1:]


def test_a_machine_that_is_down_leaves_the_others_in_use(home: Home, ssh_hosts: SshHosts) -> None:
    ssh_hosts.lines["hostb"].cut()
    ssh_hosts.lines["hostb"].set(Fault("refuse"))
    run = home.finish("-c", "pool", "hostname")
    assert home.log(run["id"]) == "hosta\n"
    assert "down" in home.gofer("-c", "pool", "list", "nodes").out
    checked = home.gofer("doctor", "-t", "pool")
    assert "pool (ssh): hosta: 0 gpus" in checked.out
    assert "no answer from hostb" in checked.out and "`gofer list nodes -t pool`" in checked.err


def test_the_rows_of_an_array_are_followed_from_another_folder(home: Home, tmp_path: Path) -> None:
    elsewhere = tmp_path / "an other"
    elsewhere.mkdir()
    script = "echo first {i}; sleep 3; echo last {i}"
    group = home.submit("-c", "pool", "--each", "i=0..2", "sh", "-c", script)
    followed = home.gofer("logs", "-f", group, cwd=elsewhere)
    lines = [f"[{row}] {word} {row}" for row in range(3) for word in ("first", "last")]
    assert sorted(followed.out.splitlines()) == lines
    assert home.gofer("logs", group, "--since", "1h", cwd=elsewhere).out.splitlines() == lines
    assert home.gofer("logs", group, "--row", "1", "--tail", "1", cwd=elsewhere).out == "[1] last 1\n"
