"""`gofer prune` on a Slurm site: handoff folders of runs that have ended, and agents of other versions."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_login as slurm_login
from clusters.fixtures import slurm_login_site as slurm_login_site
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from clusters.ssh import SshHosts
from home import Home, until
from slurm.slurm_home import SlurmHome

from gofer.transport.bundle import mark

pytestmark = ON_SLURM
NOW = ("--older-than", "0s")
LONG_AGO = time.time() - 60 * 86400


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path, slurm)


def pruned(home: Home, *words: str) -> list[tuple[str, str]]:
    answer: dict[str, Any] = json.loads(home.gofer("prune", "--json", "-y", *words).out)
    assert answer["silent"] == [], answer
    return sorted((one["kind"], one["name"]) for one in answer["items"] if one["removed"])


def put_agent(folder: Path, name: str) -> Path:
    agent = folder / "agent" / name
    agent.mkdir(parents=True)
    (agent / "x.py").write_text("pass")
    os.utime(agent, (LONG_AGO, LONG_AGO))
    return agent


def test_handoff_folders_of_ended_runs_are_removed_and_others_stay(home: SlurmHome) -> None:
    over = home.finish("echo", "hello")["id"]
    going = home.submit("sh", "-c", "echo up; sleep 300")
    home.until_logged(going, "up")
    assert pruned(home) == []
    assert pruned(home, *NOW) == [("room", over)]
    assert not home.handoff_folder(over).exists() and (home.handoff_folder(going) / "job.sh").exists()
    assert home.log(over) == "hello\n"
    home.gofer("abort", going)
    assert home.wait(going)[0]["state"] == "cancelled"
    assert [kind for kind, _ in pruned(home, *NOW)] == ["room"]


def test_a_run_that_left_no_record_of_its_end_is_never_sent_again(home: SlurmHome, tmp_path: Path) -> None:
    """It was stopped while it waited, by a gofer that wrote no record of such an end: only the ledger and its
    handoff folder have it.
    """
    filler = home.slurm.sbatch("sleep 300", "-N3", "--exclusive", "-pgpu", "--output=/dev/null", cwd=tmp_path)
    home.slurm.until_state(filler, "RUNNING")
    run = home.submit("echo", "never")
    home.gofer("abort", run)
    assert home.wait(run)[0]["state"] == "cancelled"
    (home.store / "runs" / run / "ends.jsonl").unlink()
    home.slurm.call("scancel", filler)
    assert pruned(home, *NOW) == [("room", run)]
    left = {path.name for path in home.handoff_folder(run).iterdir()}
    assert "job" in left and not left & {"job.sh", "request.json", "private.json"}
    assert pruned(home, *NOW) == []
    until(lambda: not home.jobs(run), "Slurm forgets it")
    home.gofer("ledger", "rebuild")
    home.gofer("list", "runs")
    assert home.jobs(run) == [] and len(home.completed(run)) <= 1
    # `--runs` removes the folder as a whole, with everything of the run.
    (home.folder / "assets").mkdir(exist_ok=True)
    until(lambda: home.view(run)["state"] in ("cancelled", "lost"), "it is over again")
    assert pruned(home, *NOW, "--runs") == [("room", run), ("run", run)]
    assert not home.handoff_folder(run).exists()


def test_agents_are_removed_when_no_job_will_start_them(home: SlurmHome) -> None:
    run = home.finish("true")["id"]
    # A run ends with its record, and its job a moment later. Until then the job may write into the folder
    # that `prune` removes, and an error in one folder ends the removal before the agents.
    until(lambda: home.completed(run), "the end of the job")
    old, needed = put_agent(home.far, os.urandom(8).hex()), put_agent(home.far, os.urandom(8).hex())
    waiting = home.far / "slurm" / "r260101-000000-bbbbbb"
    waiting.mkdir()
    (waiting / "job.sh").write_text(f'agent="${{room%/slurm/*}}/agent/{needed.name}"\n')
    gone = pruned(home, *NOW)
    assert ("agent", old.name) in gone and ("agent", needed.name) not in gone
    assert not old.exists() and needed.exists() and waiting.exists()
    assert (home.far / "agent" / mark()).exists()


def test_it_works_through_the_login_node(tmp_path: Path, slurm: Slurm, slurm_login: SshHosts) -> None:
    home = Home(tmp_path)
    home.environ["PATH"] = f"{slurm_login.bin}:{home.environ['PATH']}"
    home.environ.pop("SLURM_CONF", None)
    options = f"kind: slurm, login: login, gpus_per_node: 4, scratch: {tmp_path}"
    home.configure(f"targets:\n  lab: {{{options}}}\ntarget: lab\n")
    run = home.finish("true")["id"]
    far = slurm_login.machines["login"].home / ".gofer"
    old = put_agent(far, os.urandom(8).hex())
    assert {("room", run), ("agent", old.name)} <= set(pruned(home, "-t", "lab", *NOW))
    assert not (far / "slurm" / run).exists() and not old.exists()
    assert ("run", run) in pruned(home, "-t", "lab", *NOW, "--runs")
    assert not (far / "store" / "runs" / run).exists()
