"""A command that is itself a launcher is not multiplied, on this machine: torchrun and its like, mpirun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from home import Home

TWO_NODES = "targets: {big: {kind: local, gpus: 4, gpus_per_node: 2}}\n"
# Prints its words and what it finds, as launchers that are not installed here would get it.
STAND_IN = """#!/usr/bin/env python3
import json, os, sys
print(json.dumps([sys.argv[1:], dict(os.environ)]))
"""


@pytest.fixture
def big(home: Home) -> Home:
    """Two nodes of two GPUs, and programs of the names of launchers that tell what they were given."""
    home.configure(TWO_NODES)
    programs = home.root / "programs with a blank"
    programs.mkdir()
    for name in ("torchrun", "accelerate", "deepspeed", "python"):
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o755)
    home.environ["PATH"] = f"{programs}:{home.environ['PATH']}"
    return home


def rank_reports(run: dict[str, object]) -> list[tuple[list[str], dict[str, str]]]:
    logs = [log for log in run["logs"] if log["rank"] is not None]  # type: ignore[attr-defined]
    return [json.loads(Path(log["path"]).read_text()) for log in logs]


def test_torchrun_starts_once_a_node_and_finds_where_to_meet(big: Home) -> None:
    done = big.gofer("submit", "--no-code", "--wait", "--json", "-t", "big", "-n", "4", "torchrun", "x.py")
    assert "`torchrun` starts processes itself: it starts once on each of 2 nodes" in done.err
    run = json.loads(done.out)
    (first, environ), (_, second) = rank_reports(run)
    assert (run["procs"], first) == (1, ["x.py"])
    assert (environ["PET_NNODES"], environ["PET_NODE_RANK"], second["PET_NODE_RANK"]) == ("2", "0", "1")
    assert environ["PET_RDZV_ENDPOINT"] == f"{environ['MASTER_ADDR']}:{environ['MASTER_PORT']}"
    assert "RANK" not in environ
    one = big.finish("-t", "big", "-n", "2", "env", "A=b", "torchrun", "--standalone", "x.py")
    assert one["procs"] == 1
    timed = big.finish("-t", "big", "-n", "4", "timeout", "60", "torchrun", "x.py")
    assert [environ["PET_NODE_RANK"] for _, environ in rank_reports(timed)] == ["0", "1"]


def test_procs_overrides_and_what_cannot_be_filled_is_refused(big: Home) -> None:
    refused = big.gofer(
        "submit", "--no-code", "-t", "big", "-n", "4", "torchrun", "--standalone", "x.py", status=1
    )
    assert "`torchrun` cannot run on the 2 nodes of this run: `--standalone` is for one node" in refused.err
    meets = ["torchrun", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "x.py"]
    refused = big.gofer("submit", "--no-code", "-t", "big", "-n", "4", *meets, status=1)
    assert "`--rdzv-endpoint localhost:0` is another place on every node" in refused.err
    run = big.finish("-t", "big", "-n", "4", "--procs", "2", "torchrun", "--standalone", "x.py")
    assert (run["procs"], len(rank_reports(run))) == (2, 4)
    assert "PET_NNODES" not in rank_reports(run)[0][1]


def test_accelerate_gets_options_and_deepspeed_a_hostfile(big: Home) -> None:
    words = [
        one for one, _ in rank_reports(big.finish("-t", "big", "-n", "4", "accelerate", "launch", "x.py"))
    ]
    assert [one[3] for one in words] == ["--machine_rank=0", "--machine_rank=1"]
    assert words[0][-2:] == ["--num_processes=4", "x.py"]
    ((argv, environ),) = rank_reports(big.finish("-t", "big", "-n", "4", "deepspeed", "x.py"))
    assert argv[:2] == ["--no_ssh_check", f"--hostfile={environ['GOFER_HOSTFILE']}"]
    assert "RANK" not in environ and "NNODES" not in environ


def test_launcher_torchrun_starts_torchrun_once_a_node(big: Home) -> None:
    run = big.finish("-t", "big", "-n", "4", "--launcher", "torchrun", "python", "-m", "x", "--lr", "1")
    words = [one for one, _ in rank_reports(run)]
    assert [one[:5] for one in words] == [
        ["-m", "torch.distributed.run", "--nproc-per-node=2", "--nnodes=2", f"--node-rank={node}"]
        for node in (0, 1)
    ]
    assert words[0][-4:] == ["--module", "x", "--lr", "1"]


MPI = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


def test_mpirun_starts_once_and_the_other_nodes_wait_for_its_end(home: Home) -> None:
    """The second node has no rank and no log, and ends when the first has."""
    home.configure(TWO_NODES)
    gate = home.root / "gate"
    script = f"cat $GOFER_HOSTFILE; until [ -e {gate} ]; do sleep 0.05; done"
    run = home.submit("-t", "big", "-n", "4", *MPI, "-np", "1", "sh", "-c", script)
    home.until_logged(run, "localhost slots=4")
    second = home.run_folder(run) / "attempts/1/node-1"
    assert not (second / "exit.json").exists()
    gate.touch()
    assert home.wait(run)[0]["state"] == "succeeded"
    assert (second / "exit.json").exists() and not list(second.glob("rank-*"))
    assert [log["rank"] for log in home.view(run)["logs"]] == [0]


def test_mpiruns_ranks_are_its_own_and_its_end_is_the_runs(home: Home) -> None:
    home.configure(TWO_NODES)
    show = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"
    run = home.finish("-t", "big", "-n", "4", *MPI, "-np", "4", "sh", "-c", show)
    assert sorted(home.log(run["id"]).splitlines()) == [f"rank {rank} of 4" for rank in range(4)]
    failed = home.finish("-t", "big", "-n", "4", *MPI, "-np", "2", "sh", "-c", "exit 3")
    assert (failed["state"], failed["exit_code"]) == ("failed", 3)
    run_id = home.submit("-t", "big", "-n", "4", *MPI, "-np", "1", "sh", "-c", "echo up; sleep 600")
    home.until_logged(run_id, "up")
    home.gofer("abort", "--grace", "0s", run_id)
    assert home.wait(run_id)[0]["state"] == "cancelled"


def test_a_launcher_in_a_script_is_reported_and_started_as_requested(big: Home) -> None:
    below = big.folder / "below"
    below.mkdir()
    (below / "run.sh").write_text("#!/bin/sh\ntorchrun x.py\n")
    words = ["submit", "--wait", "-t", "big", "-n", "4"]
    done = big.gofer(*words, "sh", "run.sh", cwd=below)
    assert "`run.sh` has `torchrun` in it, and starts 4 times" in done.err
    assert "`--procs 1` starts it once on each node" in done.err
    assert len(rank_reports(big.view("last"))) == 4
    for options in (["--procs", "1"], ["--single"]):
        assert "has `torchrun` in it" not in big.gofer(*words, *options, "sh", "run.sh", cwd=below).err
        assert len(rank_reports(big.view("last"))) == 2
    alone = big.gofer("submit", "--wait", "sh", "-c", "torchrun x.py")
    assert "has `torchrun` in it" not in alone.err
