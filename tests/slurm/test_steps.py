"""`srun` inside a run: the agent's own step leaves the job's resources to the steps of the command."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from slurm.slurm_home import SlurmHome

pytestmark = ON_SLURM

TASK = 'echo "task on $(hostname): GPUs $CUDA_VISIBLE_DEVICES"'


@pytest.mark.parametrize("memory", ["mem_per_node: 2G", "mem_per_gpu: 1G", "mem_per_node: 0"])
def test_srun_in_a_run_gets_what_the_job_has(tmp_path: Path, slurm: Slurm, memory: str) -> None:
    """Also when the job's memory is named in another way, and one step after the other."""
    home = SlurmHome(tmp_path, slurm, options=f"{memory}, cpus_per_gpu: 2")
    script = f"srun --immediate=60 sh -c '{TASK}' && srun --immediate=60 --gres=gpu:1 sh -c '{TASK}'"
    done = home.finish("-n", "2", "--single", "sh", "-c", script)
    node = slurm.nodes[0]
    # srun itself reports when it waits for the end of the step before.
    lines = [line for line in home.log(done["id"]).splitlines() if not line.startswith("srun: ")]
    assert (done["state"], lines) == (
        "succeeded",
        [f"task on {node}: GPUs 0,1", f"task on {node}: GPUs 0"],
    )


def test_srun_itself_is_a_command(tmp_path: Path, slurm: Slurm) -> None:
    home = SlurmHome(tmp_path, slurm)
    done = home.finish("srun", "--immediate=60", "-n1", "hostname")
    assert (done["state"], home.log(done["id"]).split()) == ("succeeded", [slurm.nodes[0]])


def test_srun_on_two_nodes_starts_a_task_for_each_gpu(tmp_path: Path, slurm: Slurm) -> None:
    """Once, on the first node, in a copy that all nodes see."""
    home = SlurmHome(tmp_path, slurm)
    (home.folder / "task.sh").write_text('echo "$SLURM_PROCID of $SLURM_NTASKS on $(hostname)"\n')
    run = home.gofer("submit", "-Q", "--wait", "-n", "8", "srun", "sh", "task.sh").out.strip()
    nodes = [slurm.nodes[0]] * 4 + [slurm.nodes[1]] * 4
    output = sorted(home.log(run).splitlines())
    assert output == [f"{task} of 8 on {node}" for task, node in enumerate(nodes)]


def test_the_submit_folder_is_the_copy_of_the_code(tmp_path: Path, slurm: Slurm) -> None:
    """A folder with a space in its name, and a script that begins as batch scripts do."""
    home = SlurmHome(tmp_path / "two words", slurm)
    (home.folder / "body.sh").write_text("echo body\n")
    (home.folder / "job.sh").write_text('cd "$SLURM_SUBMIT_DIR" && bash body.sh && srun -n1 bash body.sh\n')
    run = home.gofer("submit", "-Q", "--wait", "bash", "job.sh").out.strip()
    assert home.log(run) == "body\nbody\n"


def test_an_abort_ends_the_steps_of_the_command(tmp_path: Path, slurm: Slurm) -> None:
    home = SlurmHome(tmp_path, slurm)
    run = home.submit("srun", "-n1", "sh", "-c", "echo up; sleep 300")
    home.until_logged(run, "up")
    home.gofer("abort", run)
    (done,) = home.wait(run)
    assert (done["state"], done["reason"]) == ("cancelled", "user")
    slurm.until_state(home.job(run), "FAILED", "CANCELLED", "COMPLETED")
