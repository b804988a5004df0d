"""`gofer prune` on machines over SSH: agents of other versions, copies of folders, machines that are away."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.line import Fault
from clusters.ssh import SshHosts
from home import Home, until

pytestmark = ON_SSH_HOSTS
LONG_AGO = time.time() - 60 * 86400
BOTH = "targets: {box: {kind: ssh, hosts: [hosta, hostb], gpus_per_node: 4}}\ntarget: box\n"


@pytest.fixture
def home(tmp_path: Path, ssh_hosts: SshHosts) -> Iterator[Home]:
    made = Home(tmp_path)
    made.environ["PATH"] = f"{ssh_hosts.bin}:{made.environ['PATH']}"
    made.configure(BOTH)
    yield made


def pruned(home: Home, *words: str, status: int = 0) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(home.gofer("prune", "--json", "-y", *words, status=status).out)
    return answer


def put_agent(machines: SshHosts, host: str, name: str) -> Path:
    agent = machines.machines[host].home / ".gofer" / "agent" / name
    agent.mkdir(parents=True)
    (agent / "x.py").write_text("pass")
    os.utime(agent, (LONG_AGO, LONG_AGO))
    return agent


def test_old_agents_and_copies_are_removed_on_every_machine(home: Home, ssh_hosts: SshHosts) -> None:
    assert home.finish("true")["state"] == "succeeded"
    agents = [put_agent(ssh_hosts, host, os.urandom(8).hex()) for host in ("hosta", "hostb")]
    copy = ssh_hosts.machines["hostb"].home / ".gofer" / "engine" / "hostb" / "folders" / "abc"
    (copy / "tree").mkdir(parents=True)
    (copy / "tree" / "big").write_bytes(b"x" * 4000)
    (copy / "about.json").write_text('{"store": "az://somewhere", "path": "me/data"}')
    os.utime(copy / "about.json", (LONG_AGO, LONG_AGO))
    part = ssh_hosts.machines["hostb"].home / ".gofer" / "store" / ".gofer-tmp" / "1-2"
    for one, at in ((part, LONG_AGO), (part.with_name("3-4"), time.time())):
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_bytes(b"half of it")
        os.utime(one, (at, at))
    answer = pruned(home)
    gone = sorted((one["place"], one["kind"]) for one in answer["items"] if one["removed"])
    assert gone == [
        ("hosta:~/.gofer", "agent"),
        ("hostb:~/.gofer", "agent"),
        ("hostb:~/.gofer", "folder copy"),
        ("ssh://hostb/~/.gofer/store", "part"),
    ]
    assert not part.exists() and part.with_name("3-4").exists()
    assert not copy.exists() and not any(path.exists() for path in agents)
    assert home.finish("true")["state"] == "succeeded"


def test_agents_stay_while_a_run_runs_there(home: Home, ssh_hosts: SshHosts) -> None:
    home.configure(BOTH.replace("hosta, ", ""))
    run = home.submit("sleep", "100")
    until(lambda: home.view(run)["state"] == "running", "it runs")
    agent = put_agent(ssh_hosts, "hostb", os.urandom(8).hex())
    assert pruned(home)["items"] == [] and agent.exists()
    home.gofer("abort", run)
    home.wait(run)
    assert [one["kind"] for one in pruned(home)["items"]] == ["agent"]


def test_a_machine_that_is_away_is_named_and_the_other_is_done(home: Home, ssh_hosts: SshHosts) -> None:
    assert home.finish("true")["state"] == "succeeded"
    agent = put_agent(ssh_hosts, "hosta", os.urandom(8).hex())
    ssh_hosts.lines["hostb"].cut()
    ssh_hosts.lines["hostb"].set(Fault("refuse"))
    answer = pruned(home, status=1)
    away = ["hostb:~/.gofer", "parts in ssh://hostb/~/.gofer/store"]
    assert [one["place"] for one in answer["silent"]] == away
    assert [one["removed"] for one in answer["items"]] == [True] and not agent.exists()


def test_whole_runs_go_from_the_machine_that_has_them(home: Home, ssh_hosts: SshHosts) -> None:
    run = home.finish("sh", "-c", "echo 1 > $GOFER_OUTPUT_DIR/x")["id"]
    folders = [box.home / ".gofer" / "store" / "runs" / run for box in ssh_hosts.machines.values()]
    assert any(folder.exists() for folder in folders)
    answer = pruned(home, "--older-than", "0s", "--runs")
    assert ("run", run) in [(one["kind"], one["name"]) for one in answer["items"] if one["removed"]]
    assert not any(folder.exists() for folder in folders)
