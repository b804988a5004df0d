"""The cluster with accounting remembers, and its limits hold."""

from __future__ import annotations

from pathlib import Path

from clusters.fixtures import ON_SLURM_ACCOUNTING
from clusters.fixtures import slurm_accounting as slurm_accounting
from clusters.fixtures import slurm_accounting_site as slurm_accounting_site
from clusters.slurm import Slurm

pytestmark = ON_SLURM_ACCOUNTING


def rows(slurm: Slurm, job: str, fields: str) -> list[list[str]]:
    result = slurm.call(
        "sacct", "--noheader", "--parsable2", "--duplicates", f"--jobs={job}", f"--format={fields}"
    )
    return [line.split("|") for line in result.splitlines()]


def test_a_job_that_is_over_is_remembered_with_its_steps(slurm_accounting: Slurm, tmp_path: Path) -> None:
    slurm = slurm_accounting
    job = slurm.sbatch("srun -N2 true; exit 7", "-N2", "--job-name=named", cwd=tmp_path)
    slurm.until_state(job, "FAILED")
    expected = [[job, "named", "FAILED", "7:0"], [f"{job}.batch", "batch", "FAILED", "7:0"]]
    expected.append([f"{job}.0", "true", "COMPLETED", "0:0"])
    slurm.until(lambda: rows(slurm, job, "jobid,jobname,state,exitcode") == expected, f"rows of {job}")


def test_a_requeued_job_has_a_row_for_each_attempt(slurm_accounting: Slurm, tmp_path: Path) -> None:
    slurm = slurm_accounting
    script = "[ ${SLURM_RESTART_COUNT:-0} = 1 ] && exit 0; touch up; sleep 300"
    job = slurm.sbatch(script, "--requeue", cwd=tmp_path)
    slurm.until((tmp_path / "up").exists, "the first attempt")
    slurm.call("scontrol", "requeue", job)
    slurm.until_state(job, "COMPLETED")
    expected = ["REQUEUED", "COMPLETED"]
    sacct = ("sacct", "-nPXD", f"--jobs={job}", "--format=state")
    slurm.until(lambda: slurm.call(*sacct).split() == expected, "a row for each attempt")


def test_the_limit_of_an_account_holds(slurm_accounting: Slurm, tmp_path: Path) -> None:
    slurm = slurm_accounting
    slurm.sbatch("sleep 300", "--account=research", "-N2", "--gres=gpu:4", cwd=tmp_path)
    job = slurm.sbatch("sleep 300", "--account=research", "--gres=gpu:1", cwd=tmp_path)
    slurm.until(lambda: slurm.job(job)["Reason"] == "AssocGrpGRES", "the limit")
    free = slurm.sbatch("sleep 300", "--account=root", "--gres=gpu:1", cwd=tmp_path)
    slurm.until_state(free, "RUNNING")
