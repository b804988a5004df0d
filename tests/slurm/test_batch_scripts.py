"""`gofer submit job.sbatch`: a batch script does on Slurm what it does under `sbatch`."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from slurm.slurm_home import SlurmHome

pytestmark = ON_SLURM

FACTS = (
    "SLURM_NTASKS SLURM_NNODES SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK SLURM_MEM_PER_NODE SLURM_JOB_NAME"
)


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path / "a home", slurm, options="partition: short, mem_per_node: 1G, time: 2m")


def write(home: SlurmHome, name: str, *lines: str, body: str) -> None:
    text = ["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), body, ""]
    (home.folder / name).write_text("\n".join(text))


def test_a_script_starts_once_with_its_resources(home: SlurmHome) -> None:
    """Not once for each GPU, with the options of the script before those of the target."""
    write(
        home,
        "job.sbatch",
        "-J spiral -o logs/%j.out",
        "--gres=gpu:a100:2 --ntasks-per-node=2 -c 3",
        "--mem 2G --time=0:10:00 --partition gpu",
        body=f'for name in {FACTS} SLURM_JOB_ID; do echo "$name=${{!name}}"; done\n'
        'cd "$SLURM_SUBMIT_DIR" && cat body.txt && echo "$@" GPUs $CUDA_VISIBLE_DEVICES\n'
        "srun sh -c 'echo task $SLURM_PROCID of $SLURM_NTASKS'",
    )
    (home.folder / "body.txt").write_text("body\n")
    done = home.gofer("submit", "--wait", "job.sbatch", "a", "b  c")
    run = done.out.strip()
    seen = home.view(run)
    assert (seen["state"], seen["name"], seen["nodes"], seen["procs"]) == ("succeeded", "spiral", 1, 1)
    log = home.log(run).splitlines()
    assert log[:7] == [
        *("SLURM_NTASKS=2", "SLURM_NNODES=1", "SLURM_NTASKS_PER_NODE=2", "SLURM_CPUS_PER_TASK=3"),
        *("SLURM_MEM_PER_NODE=2048", "SLURM_JOB_NAME=spiral", f"SLURM_JOB_ID={home.job(run)}"),
    ]
    assert (log[7:9], sorted(log[9:])) == (["body", "a b  c GPUs 0,1"], ["task 0 of 2", "task 1 of 2"])
    script = (home.handoff_folder(run) / "job.sh").read_text()
    assert "--partition=gpu" in script and "--time=0:10:00" in script and "short" not in script
    assert "job.sbatch: line 2: `--output=logs/%j.out` is not followed" in done.err


def test_each_task_of_an_array_is_a_row(home: SlurmHome) -> None:
    write(
        home,
        "job.sh",
        "--array=3-9:3%2",
        "-p gpu",
        body='echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT" "to $SLURM_ARRAY_TASK_MAX"\n'
        'echo "$SLURM_ARRAY_JOB_ID"',
    )
    group = home.gofer("submit", "-Q", "--wait", "./job.sh").out.strip()
    job = home.job(group)
    logs = [home.log(f"{group}-{row}") for row in range(3)]
    assert logs == [f"{number} of 3 to 9\n{job}\n" for number in (3, 6, 9)]
    assert "--array=0-2%2" in (home.handoff_folder(group) / "job.sh").read_text()


def test_gofers_flags_and_the_words_of_sbatch_win_over_the_script(home: SlurmHome) -> None:
    write(
        home,
        "job.sh",
        "--gres=gpu:4 -n 4 --time=5 -p gpu --no-requeue",
        body='echo "$CUDA_VISIBLE_DEVICES $SLURM_NTASKS $1"; sleep "$1"',
    )
    words = ("sbatch", "-n", "2", "--parsable", "job.sh", "100")
    done = home.gofer("submit", "--wait", "--json", "-n", "1", "--time-limit", "3s", *words, status=None)
    run = home.gofer("list", "runs", "--columns", "id").out.split()[-1]
    seen = home.view(run)
    assert (seen["state"], seen["reason"]) == ("failed", "time-limit")
    assert home.log(run).split() == ["0", "2", "100"]
    script = (home.handoff_folder(run) / "job.sh").read_text()
    assert "--no-requeue" in script and "--requeue\n" not in script
    assert "`--parsable` is not followed" in done.err


def test_a_script_gets_its_signal_and_its_own_time_limit(home: SlurmHome) -> None:
    """The signal comes to the script alone, and gofer's limit just before Slurm's, so that it is named."""
    write(
        home,
        "job.sh",
        "-t 1 --signal=B:USR1@55 -p gpu",
        body="trap 'echo signal; exit 7' USR1\nsleep 300 & child=$!; echo up; wait $child; echo late",
    )
    run = home.gofer("submit", "-Q", "--wait", "job.sh", status=7).out.strip()
    assert home.log(run) == "up\nsignal\n"


def test_a_command_of_bash_ignores_the_options_with_a_message(home: SlurmHome) -> None:
    write(home, "job.sh", "--gres=gpu:4", body='echo "GPUs: $CUDA_VISIBLE_DEVICES"')
    done = home.gofer("submit", "--wait", "bash", "job.sh")
    assert "bash ignores the `#SBATCH` lines of job.sh; `gofer submit job.sh` follows them" in done.err
    assert home.log(done.out.strip()) == "GPUs: \n"


def test_a_script_on_two_nodes_starts_on_the_first_and_its_steps_share_the_copy(home: SlurmHome) -> None:
    """Tasks see what the script wrote, and the script what the tasks wrote."""
    write(
        home,
        "job.sbatch",
        "-N 2 --ntasks-per-node=2 --gres=gpu:1 -p gpu -t 5",
        body="echo start on $(hostname)\necho written > by-script\n"
        "srun sh -c 'cat by-script > from-$SLURM_PROCID; hostname >> from-$SLURM_PROCID'\n"
        "cat from-*; echo $SLURM_NNODES $SLURM_NTASKS $(cat setup-done)",
    )
    setup = "echo x >> setup-done"
    run = home.gofer("submit", "-Q", "--wait", "--setup", setup, "job.sbatch").out.strip()
    seen = home.view(run)
    first, second = home.slurm.nodes[:2]
    tasks = [f"written\n{first}\n"] * 2 + [f"written\n{second}\n"] * 2
    assert (seen["state"], seen["nodes"]) == ("succeeded", 2)
    assert home.log(run) == f"start on {first}\n{''.join(tasks)}2 4 x\n"
    assert not list(home.handoff_folder(run).glob("c[0-9]*")), "the copy is removed with the run"


def test_a_failing_set_up_on_another_node_keeps_the_script_from_starting(home: SlurmHome) -> None:
    write(home, "job.sh", "-N 2 -p gpu -t 5", body="echo never")
    setup = 'test "$GOFER_NODE_RANK" = 0 || { sleep 1; echo broken; exit 9; }'
    run = home.gofer("submit", "-Q", "--wait", "--setup", setup, "job.sh", status=None).out.strip()
    seen = home.view(run)
    assert (seen["state"], seen["reason"]) == ("failed", "set-up")
    assert "never" not in home.log(run)
