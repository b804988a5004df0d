"""`gofer prune` on a Slurm site: rooms of runs that have ended, and agents of other versions."""

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
from clusters.ssh import Boxes
from home import Home, until
from slurm.desk import Desk

from gofer.transport.bundle import mark

pytestmark = ON_SLURM
NOW = ("--older-than", "0s")
LONG_AGO = time.time() - 60 * 86400


@pytest.fixture
def desk(tmp_path: Path, slurm: Slurm) -> Desk:
    return Desk(tmp_path, slurm)


def pruned(home: Home, *words: str) -> list[tuple[str, str]]:
    answer: dict[str, Any] = json.loads(home.gofer("prune", "--json", "-y", *words).out)
    return sorted((one["kind"], one["name"]) for one in answer["items"] if one["removed"])


def put_agent(folder: Path, name: str) -> Path:
    agent = folder / "agent" / name
    agent.mkdir(parents=True)
    (agent / "x.py").write_text("pass")
    os.utime(agent, (LONG_AGO, LONG_AGO))
    return agent


def test_rooms_of_ended_runs_go_and_those_of_others_stay(desk: Desk) -> None:
    over = desk.finish("echo", "hello")["id"]
    going = desk.submit("sh", "-c", "echo up; sleep 300")
    desk.until_logged(going, "up")
    assert pruned(desk) == []
    assert pruned(desk, *NOW) == [("room", over)]
    assert not desk.room(over).exists() and (desk.room(going) / "job.sh").exists()
    assert desk.log(over) == "hello\n"
    desk.gofer("abort", going)
    assert desk.wait(going)[0]["state"] == "cancelled"
    assert [kind for kind, _ in pruned(desk, *NOW)] == ["room"]


def test_a_run_that_left_no_record_of_its_end_is_never_sent_again(desk: Desk, tmp_path: Path) -> None:
    """It was stopped while it waited: only the ledger and the room know of it."""
    filler = desk.slurm.sbatch("sleep 300", "-N3", "--exclusive", "-pgpu", "--output=/dev/null", cwd=tmp_path)
    desk.slurm.until_state(filler, "RUNNING")
    run = desk.submit("echo", "never")
    desk.gofer("abort", run)
    assert desk.wait(run)[0]["state"] == "cancelled"
    desk.slurm.call("scancel", filler)
    assert pruned(desk, *NOW) == [("room", run)]
    left = {path.name for path in desk.room(run).iterdir()}
    assert "job" in left and not left & {"job.sh", "request.json", "private.json"}
    assert pruned(desk, *NOW) == []
    until(lambda: not desk.jobs(run), "Slurm forgets it")
    desk.gofer("ledger", "rebuild")
    desk.gofer("list", "runs")
    assert desk.jobs(run) == [] and len(desk.completed(run)) <= 1
    # As a whole it goes with all that is known of it.
    (desk.folder / "assets").mkdir(exist_ok=True)
    until(lambda: desk.view(run)["state"] in ("cancelled", "lost"), "it is over again")
    assert pruned(desk, *NOW, "--runs") == [("room", run), ("run", run)]
    assert not desk.room(run).exists()


def test_agents_go_when_no_job_will_start_them(desk: Desk) -> None:
    desk.finish("true")
    old, needed = put_agent(desk.far, os.urandom(8).hex()), put_agent(desk.far, os.urandom(8).hex())
    waiting = desk.far / "slurm" / "r260101-000000-bbbbbb"
    waiting.mkdir()
    (waiting / "job.sh").write_text(f'agent="${{room%/slurm/*}}/agent/{needed.name}"\n')
    gone = pruned(desk, *NOW)
    assert ("agent", old.name) in gone and ("agent", needed.name) not in gone
    assert not old.exists() and needed.exists() and waiting.exists()
    assert (desk.far / "agent" / mark()).exists()


def test_it_works_through_the_login_node(tmp_path: Path, slurm: Slurm, slurm_login: Boxes) -> None:
    home = Home(tmp_path)
    home.environ["PATH"] = f"{slurm_login.bin}:{home.environ['PATH']}"
    home.environ.pop("SLURM_CONF", None)
    options = f"kind: slurm, login: login, gpus_per_node: 4, scratch: {tmp_path}"
    home.configure(f"targets:\n  lab: {{{options}}}\ntarget: lab\n")
    run = home.finish("true")["id"]
    far = slurm_login.boxes["login"].home / ".gofer"
    old = put_agent(far, os.urandom(8).hex())
    assert {("room", run), ("agent", old.name)} <= set(pruned(home, "-t", "lab", *NOW))
    assert not (far / "slurm" / run).exists() and not old.exists()
    assert ("run", run) in pruned(home, "-t", "lab", *NOW, "--runs")
    assert not (far / "store" / "runs" / run).exists()
