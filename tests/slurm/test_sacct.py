"""A site with accounting: `sacct` has jobs that the queue has forgotten, and limits are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM_ACCOUNTING
from clusters.fixtures import slurm_accounting as slurm_accounting
from clusters.fixtures import slurm_accounting_site as slurm_accounting_site
from clusters.slurm import Slurm
from home import until
from slurm.slurm_home import SlurmHome

from gofer.backends.base import RunRef
from gofer.backends.slurm.backend import SlurmBackend

pytestmark = ON_SLURM_ACCOUNTING


@pytest.fixture
def home(tmp_path: Path, slurm_accounting: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path, slurm_accounting)


@pytest.fixture
def forgetful(home: SlurmHome) -> dict[str, str]:
    """Variables with which the queue has forgotten every job."""
    place = home.root / "forgetful"
    place.mkdir()
    (place / "squeue").write_text("#!/bin/sh\nexit 0\n")
    (place / "squeue").chmod(0o755)
    return {"PATH": f"{place}:{home.environ['PATH']}"}


def test_a_run_ends_as_its_agent_says(home: SlurmHome) -> None:
    done = home.finish("sh", "-c", "exit 3")
    assert (done["state"], done["exit_code"]) == ("failed", 3)
    home.slurm.until(lambda: "FAILED|3:0" in book(home, done["id"]), "the books")


def test_the_books_tell_of_a_job_that_the_queue_forgot(home: SlurmHome, forgetful: dict[str, str]) -> None:
    run = home.submit("sh", "-c", "echo up; sleep 300")
    home.until_logged(run, "up")
    home.slurm.call("scancel", home.job(run))
    home.slurm.until_state(home.job(run), "CANCELLED")
    home.slurm.until(lambda: "CANCELLED by 0" in book(home, run), "the books")
    seen = json.loads(home.gofer("q", "--json", run, env=forgetful).out)
    assert (seen["state"], seen["reason"], seen["detail"]) == (
        "cancelled",
        "user",
        "cancelled in Slurm by user 0",
    )


def test_rows_that_never_started_are_one_entry_of_sacct(
    home: SlurmHome, tmp_path: Path, forgetful: dict[str, str]
) -> None:
    holder = home.slurm.sbatch("sleep 300", "-N3", "--exclusive", "--output=/dev/null", cwd=tmp_path)
    home.slurm.until_state(holder, "RUNNING")
    run = home.submit("--each", "x=1,2,3", "sleep", "300")
    home.slurm.call("scancel", home.job(run))
    home.slurm.until(lambda: "_[0-2]" in book(home, run), "the books")
    seen = json.loads(home.gofer("q", "--json", run, env=forgetful).out)
    assert (seen["state"], seen["counts"]) == ("cancelled", {"cancelled": 3})


def book(home: SlurmHome, run: str) -> str:
    return home.slurm.call("sacct", "-nPX", f"-j{home.job(run)}", "-oJobID,State,ExitCode")


def test_a_lost_answer_is_found_in_the_books(
    home: SlurmHome, forgetful: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gofer.core import node_request
    from gofer.remote.slurm import submission

    monkeypatch.setenv("SLURM_CONF", home.environ["SLURM_CONF"])
    request = node_request.decode({"id": "r261116-000000-booked", "name": "my job"})
    named = "--job-name=my_job-r261116-000000-booked"
    job = home.slurm.sbatch("true", named, "--output=/dev/null", cwd=home.root)
    home.slurm.until_state(job, "COMPLETED")
    monkeypatch.setenv("PATH", forgetful["PATH"])
    until(
        lambda: submission.find(request, in_accounting=True, is_patient=False) == job,
        "the books",
    )
    assert submission.find(request, in_accounting=False, is_patient=False) is None


def test_why_a_run_waits_for_its_accounts_limit(home: SlurmHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", home.environ["SLURM_CONF"])
    home.target("account: research")
    home.submit("-n", "8", "sleep", "300")
    run = home.submit("-n", "1", "sleep", "300")
    with home.session() as session:
        backend = session.backend("lab")
        assert isinstance(backend, SlurmBackend)

        def why() -> str:
            found = backend.waiting(RunRef(run))
            return found.why if found and "Assoc" in found.why else ""

        words = until(why, "a reason")
        limits = backend.describe()["limits"]
    assert words == "its account or user has a limit of GPUs for all of them together (AssocGrpGRES)"
    assert [one for one in limits if one.get("account") == "research"]  # type: ignore[attr-defined]
