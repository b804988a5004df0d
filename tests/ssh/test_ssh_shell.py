"""`gofer ssh`, `gofer why` and `gofer list nodes` for runs on a machine over SSH."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home, until
from terminal import Terminal

pytestmark = ON_SSH_HOSTS

ONE = "targets: {box: {kind: ssh, hosts: [hostb], gpus_per_node: 4}}\ntarget: box\n"
HOLD = ("sh", "-c", "echo up; exec sleep 600")


@pytest.fixture
def held(tmp_path: Path, ssh_hosts: SshHosts) -> Iterator[tuple[Home, str]]:
    """A home, and a run of it that holds three GPUs of a machine."""
    home = Home(tmp_path)
    home.environ["PATH"] = f"{ssh_hosts.bin}:{home.environ['PATH']}"
    home.configure(ONE)
    run = home.submit("-n", "3", "--single", "-e", "TOKEN=dummy-not-a-secret", *HOLD)
    until(lambda: "up" in home.log(run), "it is up")
    yield home, run
    home.gofer("abort", "--grace", "0s", run, status=None)
    home.wait(run)


def test_a_command_runs_beside_the_run_on_its_machine(held: tuple[Home, str]) -> None:
    home, run = held
    program = "import json, os, sys; print(json.dumps([os.uname().nodename, dict(os.environ), sys.argv[1:]]))"
    words = ["$HOME  x", "a'b", "*", ""]
    host, found, told = json.loads(home.gofer("ssh", run, "python3", "-c", program, *words).out)
    assert (host, told) == ("hostb", words)
    wanted = {
        "GOFER_RANK": "0",
        "GOFER_RUN_ID": run,
        "TOKEN": "dummy-not-a-secret",
        "CUDA_VISIBLE_DEVICES": "0,1,2",
    }
    assert {name: found[name] for name in wanted} == wanted
    assert home.gofer("ssh", run, "sh", "-c", "exit 7", status=7).out == ""


def test_a_shell_on_a_terminal_reaches_the_machine(held: tuple[Home, str]) -> None:
    home, run = held
    with Terminal(home.argv("ssh", run), cwd=home.folder, env=home.environ) as shell:
        shell.until("the run continues")
        shell.type("[ -t 0 ] && echo on=$(uname -n).\n")
        shell.until("on=hostb.")
        shell.type("exit 5\n")
        assert shell.end() == 5
        assert "dummy-not-a-secret" not in shell.shown
        assert "closed" not in shell.shown


def test_a_run_that_waits_there_says_what_for(held: tuple[Home, str]) -> None:
    home, run = held
    waiting = home.submit("-n", "2", "--single", "true")
    found = json.loads(home.gofer("why", "--json", waiting).out)
    assert found["why"] == f"it needs 2 GPUs (1 of 4 free); held by {run[-6:]} (3 GPUs)"
    assert "does not run yet" in home.gofer("ssh", waiting, status=1).err
    home.gofer("abort", waiting)
    home.wait(waiting)


def test_the_machine_is_a_node(held: tuple[Home, str]) -> None:
    home, _ = held
    (node,) = json.loads(home.gofer("list", "nodes", "--json").out)
    assert (node["name"], node["state"], node["gpus"], node["gpus_free"]) == ("hostb", "mixed", 4, 1)
    assert "hostb" in home.gofer("target", "show", "box").out


def test_a_machine_without_what_the_run_needs_is_not_chosen(held: tuple[Home, str]) -> None:
    home, _ = held
    done = home.gofer("submit", "--memory", "900T", "true", status=1)
    assert "needs a machine of `box` with 818.5 TiB of memory; 0 of 1 answer and have that" in done.err
    done = home.gofer("submit", "-n", "1", "--gpu-type", "a100", "true", status=1)
    assert "with 1 GPU of the type `a100`; 0 of 1 answer and have that" in done.err
