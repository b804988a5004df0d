"""A run is submitted once, whatever becomes of `sbatch`, of its answer, and of gofer itself."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from home import until
from slurm.slurm_home import SlurmHome

from gofer.backends.polling import SOONEST_S
from gofer.node.slurm.calls import SlurmSilent
from gofer.remote.slurm import submission

pytestmark = ON_SLURM

COUNT = ("sh", "-c", 'echo x >> "$GOFER_OUTPUT_DIR/count"')
REAL = "/usr/bin/sbatch"
LOST = (
    "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1"
)


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path, slurm)


def install(home: SlurmHome, *, sbatch: str) -> None:
    """Put an `sbatch` before the real one that does this the first time it is called."""
    place = home.root / "faulty"
    place.mkdir()
    once = f'if mkdir "{home.root}/hit" 2>/dev/null; then\n{sbatch}\nfi\nexec {REAL} "$@"\n'
    (place / "sbatch").write_text(f"#!/bin/bash\n{once}")
    (place / "sbatch").chmod(0o755)
    home.environ["PATH"] = f"{place}:{home.environ['PATH']}"


def check(home: SlurmHome, run: str) -> None:
    """It ran once, as one job."""
    (done,) = home.wait(run)
    assert (done["state"], len(done["attempts"])) == ("succeeded", 1)
    assert (home.run_folder(run) / "outputs/count").read_text() == "x\n"
    home.slurm.until(lambda: home.completed(run), "a job")
    assert len(home.completed(run)) == 1


def request_of(run: str) -> tuple[dict[str, Any], str]:
    """The plan of a run that sleeps."""
    script = f"#!/bin/bash\n#SBATCH --job-name={run} --output=/dev/null\nsleep 300\n"
    return {"id": run, "name": "train", "rows": [], "store": None}, script


def test_a_job_is_found_after_its_answer_was_lost(home: SlurmHome) -> None:
    install(home, sbatch=f'{REAL} "$@" > /dev/null; {LOST}')
    check(home, home.submit(*COUNT))


def test_a_submission_that_never_arrived_goes_out_with_the_next_command(home: SlurmHome) -> None:
    install(home, sbatch=LOST)
    message = home.gofer("submit", "-Q", "--no-code", *COUNT, status=1).err
    assert "does not answer" in message and "the next command that can sends it" in message
    run = home.view("last")["id"]
    check(home, run)


def test_a_job_is_found_after_its_sbatch_was_killed(home: SlurmHome) -> None:
    install(home, sbatch=f'{REAL} "$@" > /dev/null; kill -9 $$')
    check(home, home.submit(*COUNT))


def test_a_job_that_appears_late_is_found(home: SlurmHome) -> None:
    """The lost `sbatch` takes effect right before the third search for its job."""
    late = home.root / "late"
    late.mkdir()
    install(home, sbatch=f"printf '%s\\0' \"$@\" > {late}/words; pwd > {late}/folder; {LOST}")
    squeue = home.root / "faulty" / "squeue"
    squeue.write_text(
        f"""#!/bin/bash
if [ -e {late}/words ]; then
    echo search >> {late}/searches
    if [ "$(wc -l < {late}/searches)" = 3 ]; then
        (cd "$(cat {late}/folder)" && xargs -0 -a {late}/words {REAL}) > /dev/null
    fi
fi
exec /usr/bin/squeue "$@"
"""
    )
    squeue.chmod(0o755)
    run = home.submit(*COUNT)
    assert (late / "searches").read_text().count("search") >= 3
    check(home, run)


def test_a_job_is_found_after_an_answer_without_a_number(home: SlurmHome) -> None:
    install(home, sbatch=f'{REAL} "$@" > /dev/null; echo Welcome; exit 0')
    check(home, home.submit(*COUNT))


@pytest.mark.parametrize("when", ["before", "after"])
def test_gofer_killed_beside_sbatch_leaves_a_run_that_the_next_command_completes(
    home: SlurmHome, when: str
) -> None:
    real = f'{REAL} "$@" > /dev/null; ' if when == "after" else ""
    install(home, sbatch=f"{real}kill -9 $PPID; exit 1")
    process = home.start("submit", "-Q", "--no-code", *COUNT)
    assert process.wait(timeout=120) == -9
    process.communicate()
    run = home.view("last")["id"]
    check(home, run)


def test_an_sbatch_that_hangs_is_given_up_and_what_it_sent_is_found(
    home: SlurmHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(home, sbatch=f'{REAL} "$@" > /dev/null; sleep 300')
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, home.environ[name])
    request, script = request_of("r261116-000000-hanged")
    job = submission.submit(str(home.far), request, script, b"{}", 10.0)
    assert home.jobs(request["id"]) == [job]
    assert submission.submit(str(home.far), request, script, b"{}", 10.0) == job


def test_a_job_is_found_by_its_name_when_the_site_lost_gofers_folder(
    home: SlurmHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", home.environ["SLURM_CONF"])
    request, script = request_of("r261116-000000-bereft")
    first = submission.submit(str(home.far), request, script, b"{}", 60.0)
    assert submission.submit(str(home.root / "elsewhere"), request, script, b"{}", 60.0) == first
    assert home.jobs(request["id"]) == [first]


def test_a_controller_that_is_away_is_no_refusal(home: SlurmHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", home.environ["SLURM_CONF"])
    request, script = request_of("r261116-000000-lonely")
    home.finish("true")  # what the site is like is known from then on
    home.slurm.stop_controller()
    with pytest.raises(SlurmSilent, match="nable to contact slurm controller"):
        submission.submit(str(home.far), request, script, b"{}", 60.0)
    home.slurm.start_controller()
    home.slurm.until(home.slurm.answers, "slurmctld")
    job = submission.submit(str(home.far), request, script, b"{}", 60.0)
    assert home.jobs(request["id"]) == [job]


def test_many_submitters_of_one_run_make_one_job(home: SlurmHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", home.environ["SLURM_CONF"])
    request, script = request_of("r261116-000000-crowds")
    found: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(submission.submit(str(home.far), request, script, b"{}", 60.0))
        )
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == home.jobs(request["id"]) * 5


def test_two_gofers_that_repair_the_same_run_make_one_job(home: SlurmHome) -> None:
    install(home, sbatch="kill -9 $PPID; exit 1")
    process = home.start("submit", "-Q", "--no-code", *COUNT)
    process.wait(timeout=120)
    process.communicate()
    both = [home.start("list", "runs", "--json") for _ in range(2)]
    for one in both:
        one.communicate(timeout=100)
    check(home, home.view("last")["id"])


def test_an_aborted_submission_is_not_sent_later(home: SlurmHome) -> None:
    install(home, sbatch=LOST)
    home.gofer("submit", "-Q", "--no-code", *COUNT, status=1)
    run = home.gofer("list", "runs", "--json").out
    assert run
    home.gofer("abort", "last")
    seen = home.view("last")
    assert seen["state"] in ("cancelled", "succeeded")
    until(lambda: len(home.jobs(seen["id"])) <= 1, "at most one job")


def test_calls_of_slurms_programs_for_a_submission(home: SlurmHome) -> None:
    """One call for the name, one for the job; the site's own facts are cached for a day."""
    home.finish("true")
    place = home.root / "counted"
    place.mkdir()
    for program in ("sbatch", "squeue", "scontrol", "sacct", "sinfo"):
        (place / program).write_text(
            f'#!/bin/sh\n[ "$SLURM_JOB_ID" ] || echo {program} >> {home.root}/calls\n'
            f'exec /usr/bin/{program} "$@"\n'
        )
        (place / program).chmod(0o755)
    home.environ["PATH"] = f"{place}:{home.environ['PATH']}"
    rows = ",".join(str(number) for number in range(200))
    run = home.submit("--each", f"x={rows}", "sleep", "{x}")
    assert (home.root / "calls").read_text().split() == ["squeue", "sbatch"]
    began = time.monotonic()
    home.gofer("list", "runs")
    home.gofer("list", "runs")
    passed = int((time.monotonic() - began) / SOONEST_S)  # an answer is good for so long
    asked = (home.root / "calls").read_text().split()[2:]
    assert set(asked) == {"squeue"} and len(asked) <= 1 + passed
    home.gofer("abort", "--grace", "0", run)
