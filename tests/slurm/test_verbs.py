"""`why`, `ssh`, `list nodes`, `target show` and `submit ssh` on a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from home import until
from slurm.slurm_home import SlurmHome
from terminal import Terminal

pytestmark = ON_SLURM

HOLD = ("sh", "-c", "echo up; sleep 300")


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path, slurm)


def held(home: SlurmHome, *words: str) -> str:
    run = home.submit(*words, *HOLD)
    home.until_logged(run, "up")
    return run


def stop(home: SlurmHome, *runs: str) -> None:
    home.gofer("abort", "-Q", "--grace", "0s", *runs)
    home.wait(*runs)


def test_a_pending_run_is_explained_in_plain_words(home: SlurmHome) -> None:
    holders = [held(home, "-n", "12", "--single")]
    waiting = home.submit("-n", "8", "true")

    until(
        lambda: "waits: the nodes or GPUs that it needs are in use" in home.gofer("why", waiting).out,
        "Slurm's reason in words",
    )
    text = home.gofer("why", waiting).out
    assert text.startswith(f"{waiting[-6:]} waits: ")
    assert f"gofer abort {waiting[-6:]}" in text
    stop(home, *holders, waiting)


def test_a_dead_run_names_its_first_failure(home: SlurmHome) -> None:
    script = "if [ $RANK = 5 ]; then echo last words; exit 9; fi; sleep 300"
    done = home.finish("-n", "8", "sh", "-c", script)
    text = home.gofer("why", done["id"]).out
    assert text.startswith(f"{done['short_id']} failed: rank 5 exited with 9\n")
    assert "rank 5 of 8, on node 1\n" in text
    assert "  last words\n" in text


def test_a_command_lands_inside_the_allocation_word_for_word(home: SlurmHome) -> None:
    run = held(home, "-n", "2")
    program = (
        "import json as j, os, sys; print(j.dumps([os.uname()[1], os.environ['SLURM_JOB_ID'], sys.argv[1:]]))"
    )
    words = ["$HOME  x", "a'b", "*", "--help"]
    host, job, told = json.loads(home.gofer("ssh", run, "python3", "-c", program, *words).out)
    assert host in home.slurm.nodes
    assert (job, told) == (home.job(run), words)
    assert home.gofer("ssh", run, "sh", "-c", "exit 7", status=7).out == ""
    stop(home, run)


def test_a_shell_on_each_node_of_an_allocation(home: SlurmHome) -> None:
    run = home.submit("-n", "8", "sh", "-c", "echo up $SLURMD_NODENAME; exec sleep 600")
    for rank in (0, 4):
        home.until_logged(run, "up", rank=rank)
    hosts = [home.log(run, "--rank", str(rank)).split()[1] for rank in (0, 4)]
    show = ("sh", "-c", "echo $SLURMD_NODENAME")
    assert [home.gofer("ssh", "--node", str(node), run, *show).out.strip() for node in (0, 1)] == hosts
    assert len(set(hosts)) == 2
    stop(home, run)


def test_a_shell_on_a_terminal_is_inside_the_allocation(home: SlurmHome) -> None:
    run = held(home)
    with Terminal(home.argv("ssh", run), cwd=home.folder, env=home.environ) as shell:
        shell.until("the run continues")
        shell.type("[ -t 0 ] && echo job=$SLURM_JOB_ID.\n")
        shell.until(f"job={home.job(run)}.")
        shell.type("exit 5\n")
        assert shell.end() == 5
    until(lambda: home.view(run)["state"] == "running", "the run continues")
    stop(home, run)


def test_submit_ssh_holds_an_allocation(home: SlurmHome) -> None:
    done = home.gofer("-n", "4", "submit", "--wait", "ssh")
    run = home.view(done.out.strip())
    assert (run["state"], run["gpus"], run["procs"]) == ("running", 4, 1)
    assert f"`gofer ssh {run['short_id']}` enters it" in done.err
    stop(home, run["id"])


def test_nodes_and_what_is_free(home: SlurmHome) -> None:
    run = held(home, "-n", "3", "--single")
    found = json.loads(home.gofer("list", "nodes", "--json").out)
    assert [node["name"] for node in found] == sorted(home.slurm.nodes)
    assert sorted((node["gpus"], node["gpus_free"]) for node in found) == [(4, 1), (4, 4), (4, 4)]
    shown = home.gofer("target", "show", "lab").out
    assert "9 of 12 free" in shown
    stop(home, run)
