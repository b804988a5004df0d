"""The cluster without accounting is a real one: what Slurm promises on a site holds here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.cells import find, lives
from clusters.errors import ClusterError
from clusters.fixtures import ON_SLURM, running
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm, down
from home import until

pytestmark = ON_SLURM


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_step_over_two_nodes_runs_on_two_machines_with_the_gpus_asked_for(slurm: Slurm) -> None:
    result = slurm.call(
        "srun", "-N2", "--gres=gpu:a100:2", "sh", "-c", "echo $(hostname) $CUDA_VISIBLE_DEVICES"
    )
    assert sorted(result.splitlines()) == [f"{slurm.nodes[0]} 0,1", f"{slurm.nodes[1]} 0,1"]


def test_nodes_know_each_other_by_name(slurm: Slurm) -> None:
    result = slurm.call("srun", "-w", slurm.nodes[0], "getent", "hosts", slurm.nodes[2])
    assert result.split() == ["127.0.0.1", slurm.nodes[2]]


def test_more_gpus_than_a_node_has_are_refused(slurm: Slurm) -> None:
    with pytest.raises(ClusterError, match="Requested node configuration is not available"):
        slurm.call("srun", "-N1", "--gres=gpu:a100:5", "true")


def test_an_array_runs_each_row_once(slurm: Slurm, tmp_path: Path) -> None:
    script = "echo $SLURM_ARRAY_TASK_ID >> rows"
    job = slurm.sbatch(script, "--array=0-11%6", "--output=/dev/null", cwd=tmp_path)
    slurm.until(lambda: len(lines(tmp_path / "rows")) == 12, f"rows of {job}")
    assert sorted(lines(tmp_path / "rows"), key=int) == [str(row) for row in range(12)]


def test_steps_inside_a_batch_job_span_its_nodes(slurm: Slurm, tmp_path: Path) -> None:
    job = slurm.sbatch("srun --ntasks-per-node=1 hostname", "-N3", "--output=said", cwd=tmp_path)
    slurm.until_state(job, "COMPLETED")
    assert sorted(lines(tmp_path / "said")) == slurm.nodes


def test_a_cancelled_step_gets_sigterm_and_leaves_no_process(slurm: Slurm, tmp_path: Path) -> None:
    script = "srun bash -c 'trap \"echo heard > heard; exit 3\" TERM; echo $$ > up; sleep 300.25 & wait'"
    job = slurm.sbatch(script, cwd=tmp_path)
    slurm.until((tmp_path / "up").exists, "the step")
    slurm.call("scancel", job)
    slurm.until_state(job, "CANCELLED")
    slurm.until((tmp_path / "heard").exists, "the trap")
    slurm.until_idle()
    running_now = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "sleep 300.25" not in running_now.stdout.splitlines()


@pytest.mark.slow
def test_a_job_that_is_over_is_soon_forgotten(slurm: Slurm, tmp_path: Path) -> None:
    job = slurm.sbatch("exit 3", cwd=tmp_path)
    slurm.until_state(job, "FAILED")
    assert slurm.job(job)["ExitCode"] == "3:0"
    slurm.until(lambda: not slurm.job(job), "the controller to forget")
    assert slurm.call("squeue", "--noheader", "--states=all") == ""
    with pytest.raises(ClusterError, match="Slurm accounting storage is disabled"):
        slurm.call("sacct")


def test_queue_speaks_json(slurm: Slurm, tmp_path: Path) -> None:
    job = slurm.sbatch("sleep 300", "--job-name=named", cwd=tmp_path)
    jobs = json.loads(slurm.call("squeue", "--json"))["jobs"]
    assert [row["name"] for row in jobs if row["job_id"] == int(job)] == ["named"]


@pytest.mark.slow
def test_a_spare_job_gives_way_and_runs_again(slurm: Slurm, tmp_path: Path) -> None:
    options = ("-N3", "--exclusive", "--requeue", "--open-mode=append", "--output=spare")
    script = "echo attempt ${SLURM_RESTART_COUNT:-0}; [ ${SLURM_RESTART_COUNT:-0} = 1 ] || sleep 300"
    spare = slurm.sbatch(script, "-pspare", *options, cwd=tmp_path)
    slurm.until(lambda: lines(tmp_path / "spare"), "the first attempt")
    slurm.call("srun", "-N1", "-pgpu", "true")
    slurm.until_state(spare, "COMPLETED")
    result = lines(tmp_path / "spare")
    assert [line for line in result if line.startswith("attempt")] == ["attempt 0", "attempt 1"]
    assert any("DUE TO PREEMPTION" in line for line in result), result


def test_memory_is_limited_where_the_machine_allows_it(slurm: Slurm, tmp_path: Path) -> None:
    if not slurm.site.cgroups:
        pytest.skip("no control groups of version 1 that Slurm could use")
    greedy = "python3 -c 'x = bytearray(200 << 20); print(len(x))'"
    job = slurm.sbatch(greedy, "--mem=50M", "--output=said", cwd=tmp_path)
    slurm.until_state(job, "OUT_OF_MEMORY")


def test_a_node_that_was_killed_and_started_again_is_as_before(slurm: Slurm) -> None:
    name = slurm.nodes[1]
    slurm.kill_node(name)
    assert name not in slurm.pids
    slurm.heal()
    assert slurm.call("srun", "-w", name, "hostname").split() == [name]


def test_a_stopped_controller_is_reported_and_restarts_with_its_jobs(slurm: Slurm, tmp_path: Path) -> None:
    job = slurm.sbatch("sleep 300", cwd=tmp_path)
    slurm.until_state(job, "RUNNING")
    slurm.stop_controller()
    with pytest.raises(ClusterError, match="Unable to contact slurm controller"):
        slurm.call("squeue")
    slurm.start_controller()
    slurm.until(slurm.answers, "slurmctld")
    assert slurm.state(job) == "RUNNING"


def test_two_clusters_live_beside_each_other(slurm: Slurm, tmp_path: Path) -> None:
    with running() as other:
        assert set(other.nodes).isdisjoint(slurm.nodes)
        entries = [site.call("srun", "-N3", "-l", "hostname") for site in (slurm, other)]
        folder, pids = other.folder, other.pids.values()
    assert [set(text.split()[1::2]) for text in entries] == [set(slurm.nodes), set(other.nodes)]
    assert not folder.exists()
    assert not [pid for pid in pids if lives(pid)]


def test_down_cleans_what_a_crashed_up_left(short_folder: Path) -> None:
    argv = [sys.executable, "-m", "clusters", "slurm", "up", "--accounting", "--dir", str(short_folder)]
    up = subprocess.Popen(argv, env=module_env(), stdout=subprocess.DEVNULL)
    until(lambda: "control" in find(short_folder), "the controller's cell")
    up.send_signal(signal.SIGKILL)
    up.wait()
    pids = [cell.pid for cell in find(short_folder).values()]
    assert pids
    down = [sys.executable, "-m", "clusters", "slurm", "down", "--dir", str(short_folder)]
    for said in ("ended and removed", "nothing runs in"):
        done = subprocess.run(down, env=module_env(), capture_output=True, text=True, timeout=120, check=True)
        assert said in done.stdout
    assert not short_folder.exists()
    assert not [pid for pid in pids if lives(pid)]


def test_a_tied_cluster_dies_with_its_process(short_folder: Path) -> None:
    program = "import sys; from pathlib import Path; from clusters import slurm; "
    program += "slurm.up(Path(sys.argv[1]), tied=True); print('up', flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", program, str(short_folder)]
    with subprocess.Popen(argv, env=module_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == b"up\n"
        assert find(short_folder)
        owner.send_signal(signal.SIGKILL)
    until(lambda: not find(short_folder), "the end of the cluster")
    assert down(short_folder)
    assert not short_folder.exists()


def test_a_cluster_that_cannot_start_shows_the_log(short_folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "slurmctld"
    broken.write_text("#!/bin/sh\necho fatal: the moon is not right >&2\nexit 1\n")
    broken.chmod(0o755)
    env = {**module_env(), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = [sys.executable, "-m", "clusters", "slurm", "up", "--dir", str(short_folder)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert "error: slurmctld exited 1" in done.stderr
    assert "fatal: the moon is not right" in done.stderr
    assert not find(short_folder)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Short, since sockets are in it."""
    folder = Path(tempfile.mkdtemp(prefix="gofer-up-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def module_env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
