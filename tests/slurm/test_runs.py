"""Runs on a cluster without accounting: what Slurm does to them, and what gofer shows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from home import until
from slurm.slurm_home import SlurmHome

import gofer

pytestmark = ON_SLURM

SLEEP = ("sh", "-c", "echo up; sleep 300")


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path, slurm)


def fill(slurm: Slurm, folder: Path, *, partition: str = "gpu") -> str:
    """A job that holds every node."""
    job = slurm.sbatch("sleep 300", "-N3", "--exclusive", f"-p{partition}", "--output=/dev/null", cwd=folder)
    slurm.until_state(job, "RUNNING")
    return job


def test_eight_gpus_are_eight_ranks_on_two_nodes(home: SlurmHome) -> None:
    script = 'echo "$RANK/$WORLD_SIZE on $(hostname) sees $CUDA_VISIBLE_DEVICES"'
    done = home.finish("-n", "8", "sh", "-c", script)
    assert (done["state"], done["nodes"], done["procs"]) == ("succeeded", 2, 4)
    output = [home.log(done["id"], "--rank", str(rank)).strip() for rank in range(8)]
    nodes = [home.slurm.nodes[0]] * 4 + [home.slurm.nodes[1]] * 4
    assert output == [f"{rank}/8 on {node} sees 0,1,2,3" for rank, node in enumerate(nodes)]


def test_a_run_without_gpus_sees_none_and_it_is_reported(home: SlurmHome) -> None:
    done = home.gofer("submit", "--no-code", "--wait", "sh", "-c", "echo sees ${CUDA_VISIBLE_DEVICES-all}")
    assert "has 4 GPUs; this run asks for none and sees none" in done.err
    assert "succeeded; saw no GPU" in done.err
    run = done.out.strip()
    assert home.log(run) == "sees\n"
    assert "gpus       0, saw no GPU" in home.gofer("q", run).out


def test_a_function_has_a_result_for_each_rank_of_its_nodes(
    home: SlurmHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in home.environ.items():
        monkeypatch.setenv(name, value)
    run = gofer.job(folder=home.folder, nodes=2, procs=2).submit(os.getenv, "GOFER_RANK")
    assert run.results(timeout_s=120) == ["0", "1", "2", "3"]
    assert sorted(run.outputs()) == [f"gofer-result-{rank}.pkl" for rank in range(4)]
    with home.session() as session:
        key = session.ledger.result_key(run.id)
    assert key is not None
    for path in home.root.rglob("*"):
        if path.is_file() and not path.name.startswith("ledger.db"):
            assert key.hex().encode() not in path.read_bytes(), path


def test_ranks_meet_by_the_names_of_their_nodes(home: SlurmHome) -> None:
    names = "MASTER_ADDR MASTER_PORT AZ_BATCH_HOST_LIST SLURM_JOB_ID"
    script = f'for name in {names}; do eval "echo \\$$name"; done; env | grep -c "^SLURM_PROCID=" || true'
    done = home.finish("--nodes", "2", "sh", "-c", script)
    assert done["state"] == "succeeded"
    address, port, hosts, job, tasks = home.log(done["id"], "--rank", "1").split()
    assert (address, hosts) == (home.slurm.nodes[0], ",".join(home.slurm.nodes[:2]))
    assert (int(port), job, tasks) == (12000 + int(job) % 20000, home.job(done["id"]), "0")


def test_a_secret_is_gone_from_the_site_when_the_run_is(home: SlurmHome) -> None:
    home.gofer("secret", "set", "token", "--value", "not-a-real-secret", status=None)
    home.environ["TOKEN_HERE"] = "not-a-real-secret"
    gate = home.root / "gate"
    script = f"printf %s $TOKEN | cksum; echo $TOKEN; until [ -e {gate} ]; do sleep 0.1; done"
    run = home.submit("--env", "TOKEN=${env:TOKEN_HERE}", "sh", "-c", script)
    private = home.handoff_folder(run) / "private.json"
    until(private.exists, "private values on the site")
    assert private.stat().st_mode & 0o777 == 0o600
    gate.touch()
    (done,) = home.wait(run)
    assert (done["state"], home.log(run)) == ("succeeded", f"2039203516 17\n{'*' * 17}\n")
    until(lambda: not private.exists(), "the end of the private values")
    left = [path for path in home.far.rglob("*") if path.is_file() and "slurm" in path.parts]
    assert not [path for path in left if b"not-a-real-secret" in path.read_bytes()]


def test_a_run_that_waits_is_cancelled_at_once(home: SlurmHome, tmp_path: Path) -> None:
    fill(home.slurm, tmp_path)
    run = home.submit(*SLEEP)
    assert home.view(run)["state"] == "queued"
    home.gofer("abort", run)
    seen = home.view(run)
    assert (seen["state"], seen["reason"], seen["attempts"]) == ("cancelled", "user", [])
    assert not (home.handoff_folder(run) / "private.json").exists()


def test_a_cancelled_row_that_waits_is_remembered_when_slurm_has_forgotten(
    home: SlurmHome, tmp_path: Path
) -> None:
    fill(home.slurm, tmp_path)
    run = home.submit(*SLEEP)
    job = home.job(run)
    session = home.environ | {"PATH": f"{_silent_squeue(tmp_path)}:{home.environ['PATH']}"}
    home.slurm.call("scancel", job)
    (home.handoff_folder(run) / "cancel").write_text(json.dumps({"grace_s": None}))
    done = json.loads(home.gofer("q", "--json", run, env=session).out)
    assert (done["state"], done["reason"]) == ("cancelled", "user")


def _silent_squeue(folder: Path) -> Path:
    """A folder for PATH with a queue that has forgotten everything."""
    place = folder / "forgetful"
    place.mkdir()
    (place / "squeue").write_text("#!/bin/sh\nexit 0\n")
    (place / "squeue").chmod(0o755)
    return place


def test_what_somebody_cancels_in_slurm_is_cancelled(home: SlurmHome) -> None:
    run = home.submit(*SLEEP)
    home.until_logged(run, "up")
    home.slurm.call("scancel", home.job(run))
    seen = home.until_view(run, state="cancelled")
    assert (seen["reason"], seen["detail"]) == ("user", "cancelled in Slurm")
    assert [(one["number"], one["state"]) for one in seen["attempts"]] == [(1, "cancelled")]


def test_grace_is_the_runs_own_and_not_slurms(home: SlurmHome) -> None:
    """Slurm here would kill after three seconds."""
    script = "trap 'sleep 5; echo saved; exit 0' TERM; echo up; sleep 300 & wait"
    run = home.submit("--grace", "30s", "sh", "-c", script)
    home.until_logged(run, "up")
    home.gofer("abort", run)
    assert (home.view(run)["state"], home.log(run)) == ("cancelled", "up\nsaved\n")


def test_no_grace_at_all_ends_what_does_not_listen(home: SlurmHome) -> None:
    run = home.submit("--grace", "1h", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    home.until_logged(run, "up")
    home.gofer("abort", "--grace", "0", run)
    assert home.view(run)["state"] == "cancelled"
    home.slurm.until_idle()


def test_a_preempted_run_is_started_again(home: SlurmHome) -> None:
    home.target("partition: spare, cpus_per_node: 16")
    script = 'echo "attempt $GOFER_ATTEMPT"; [ $GOFER_ATTEMPT = 2 ] || sleep 300'
    run = home.submit("--nodes", "3", "sh", "-c", script)
    for rank in range(3):
        home.until_logged(run, "attempt 1", rank=rank)
    home.slurm.call("srun", "-N1", "-pgpu", "true")
    (done,) = home.wait(run)
    attempts = [(one["number"], one["state"], one["reason"]) for one in done["attempts"]]
    assert attempts == [(1, "lost", "preempted"), (2, "succeeded", None)]
    assert done["state"] == "succeeded"
    assert [home.log(run, "--attempt", str(number)) for number in (1, 2)] == ["attempt 1\n", "attempt 2\n"]


def test_a_requeued_run_shows_its_attempts_while_it_waits(home: SlurmHome) -> None:
    run = home.submit("sh", "-c", "echo up; [ $GOFER_ATTEMPT = 2 ] || sleep 300")
    home.until_logged(run, "up")
    home.until_view(run, state="running")
    home.slurm.call("scontrol", "requeuehold", home.job(run))
    seen = home.until_view(run, state="queued")
    assert [(one["number"], one["reason"]) for one in seen["attempts"]] == [(1, "preempted")]
    home.slurm.call("scontrol", "release", home.job(run))
    (done,) = home.wait(run)
    assert (done["state"], len(done["attempts"])) == ("succeeded", 2)


def test_a_run_that_may_not_be_requeued_ends_as_preempted(home: SlurmHome) -> None:
    home.target("partition: spare, cpus_per_node: 16, requeue: false")
    run = home.submit("--nodes", "3", *SLEEP)
    home.until_logged(run, "up", rank=2)
    home.slurm.call("srun", "-N1", "-pgpu", "true")
    (done,) = home.wait(run)
    assert (done["state"], done["reason"], len(done["attempts"])) == ("failed", "preempted", 1)


def test_out_of_memory_is_named(home: SlurmHome) -> None:
    if not home.slurm.site.cgroups:
        pytest.skip("no control groups of version 1 that Slurm could use")
    home.target("mem_per_node: 150M")
    done = home.finish("python3", "-c", "x = bytearray(400 << 20); print(len(x))")
    assert (done["state"], done["reason"]) == ("failed", "out-of-memory")


def test_a_failing_node_stops_the_others_with_grace(home: SlurmHome) -> None:
    script = '[ $NODE_RANK = 1 ] && exit 7; trap "echo saved; exit 0" TERM; echo up; sleep 300 & wait'
    done = home.finish("--nodes", "3", "sh", "-c", script)
    assert (done["state"], done["exit_code"], done["first_failure"]["node"]) == ("failed", 7, 1)
    assert home.log(done["id"], "--rank", "0") in ("up\nsaved\n", "")


def test_an_agent_that_is_killed_is_a_lost_run(home: SlurmHome) -> None:
    run = home.submit("sh", "-c", "kill -9 $PPID; sleep 300")
    (done,) = home.wait(run)
    assert (done["state"], done["reason"]) == ("lost", "node-failure")
    assert done["detail"] == "node 0 left no record of its end, and srun exited with 137"


def test_a_job_that_slurm_forgot_gets_its_state_from_its_folder(home: SlurmHome, tmp_path: Path) -> None:
    run = home.submit("sh", "-c", "exit 3")
    until((home.run_folder(run) / "ends.jsonl").exists, "the end")
    blind = {"PATH": f"{_silent_squeue(tmp_path)}:{home.environ['PATH']}"}
    other = SlurmHome(tmp_path / "other", home.slurm)
    other.configure((home.folder / "gofer.yaml").read_text())
    done = json.loads(other.gofer("q", "--json", run, env=blind).out)
    assert (done["state"], done["exit_code"]) == ("failed", 3)


def test_a_job_that_nobody_knows_is_lost_when_patience_is_over(home: SlurmHome, tmp_path: Path) -> None:
    fill(home.slurm, tmp_path)
    run = home.submit(*SLEEP)
    blind = {"PATH": f"{_silent_squeue(tmp_path)}:{home.environ['PATH']}"}

    def lost_view() -> dict[str, object]:
        seen: dict[str, object] = json.loads(home.gofer("q", "--json", run, env=blind).out)
        return seen if seen["state"] == "lost" else {}

    assert json.loads(home.gofer("q", "--json", run, env=blind).out)["state"] == "unknown"
    home.target("patience: 3s")
    words = str(until(lost_view, "a lost run")["detail"])
    assert words.startswith(f"neither squeue nor sacct knows its job {home.job(run)} now, ")


def test_a_refused_job_is_a_failed_run(home: SlurmHome) -> None:
    home.target("partition: nowhere")
    message = home.gofer("submit", "--no-code", "true", status=1).err
    assert "invalid partition" in message and "recorded as failed" in message
    seen = home.view("last")
    assert (seen["state"], seen["reason"]) == ("failed", "rejected")


def test_an_array_larger_than_the_site_takes_is_refused(home: SlurmHome) -> None:
    numbers = ",".join(str(number) for number in range(10002))
    message = home.gofer("submit", "--no-code", "--each", f"x={numbers}", "echo", "{x}", status=1).err
    assert "the array has 10002 rows, but this site accepts 10001 (MaxArraySize)" in message


def test_a_script_that_cannot_find_the_agent_says_where_to_look(home: SlurmHome) -> None:
    home.target("prelude: 'exit 5'")
    done = home.finish("true")
    assert (done["state"], done["reason"]) == ("failed", "exit-code")
    assert f"{home.far}/slurm/{done['id']}/slurm-" in done["detail"]


def test_rows_run_as_many_at_once_as_is_allowed(home: SlurmHome) -> None:
    home.target("array_limit: 2")
    gate = home.root / "gate"
    script = f"echo up >> $GOFER_RUN_DIR/../{{x}}.mark; until [ -e {gate} ]; do sleep 0.1; done"
    run = home.submit("--each", "x=1,2,3,4,5", "sh", "-c", script)
    until(lambda: len(list(home.store.glob("runs/*.mark"))) >= 2, "the first rows")
    states = [job.split()[1] for job in _rows(home, run)]
    assert sorted(states) == ["PENDING"] * 3 + ["RUNNING"] * 2
    gate.touch()
    assert [one["state"] for one in home.wait(run)] == ["succeeded"]


@pytest.mark.parametrize("name", ["my, odd|name", "日本 ü"])
def test_squeue_shows_the_name_of_a_run_and_gofer_its_job(home: SlurmHome, name: str) -> None:
    run = home.submit("--name", name, "--each", "x=1,2", "sleep", "600")
    shown = home.slurm.call("squeue", "--noheader", f"--jobs={home.job(run)}", "--format=%j").split()
    assert set(shown) == {{"my, odd|name": f"my_odd_name-{run}"}.get(name, run)}
    until(lambda: home.view(f"{run}-1")["state"] == "running", "the second row runs")
    assert home.view(f"{run}-1")["service_id"] == f"{home.job(run)}_1"
    home.gofer("abort", "--grace", "0s", run)
    assert home.view(f"{run}-0")["state"] == "cancelled"
    assert not home.slurm.call("squeue", "--noheader", f"--jobs={home.job(run)}", "--states=R,PD").split()


def test_a_run_that_ended_before_gofer_asked_has_its_job_too(home: SlurmHome) -> None:
    done = home.finish("true")
    assert done["service_id"] == home.job(done["id"])
    lines = home.gofer("q", "--no-logs", done["id"]).out.splitlines()
    facts = {line[:11].strip(): line[11:] for line in lines}
    assert facts["job"] == home.job(done["id"])
    assert facts["hosts"] in home.slurm.call("sinfo", "--noheader", "--Node", "--format=%N").split()


def _rows(home: SlurmHome, run: str) -> list[str]:
    asked = ("squeue", "--noheader", "--array", f"--jobs={home.job(run)}", "--format=%K %T")
    return home.slurm.call(*asked).splitlines()


def test_an_array_is_one_job_and_its_private_values_go_with_its_last_row(home: SlurmHome) -> None:
    home.environ["TOKEN_HERE"] = "dummy-value"
    run = home.submit(
        "--each", "x=0,1,2", "--env", "T=${env:TOKEN_HERE}", "sh", "-c", "printf %s $T | cksum; exit {x}"
    )
    (group,) = home.wait(run)
    assert group["counts"] == {"succeeded": 1, "failed": 2}
    assert not (home.handoff_folder(run) / "private.json").exists()
    assert [home.log(f"{run}-{row}") for row in range(3)] == ["542471313 11\n"] * 3


def test_retries_after_a_requeue_keep_the_log_of_each_attempt(home: SlurmHome) -> None:
    done = home.finish("--retries", "1", "sh", "-c", "echo try $GOFER_ATTEMPT; exit 4")
    assert (done["state"], done["exit_code"]) == ("failed", 4)
    assert [(one["number"], one["exit_code"]) for one in done["attempts"]] == [(1, 4), (2, 4)]


def test_a_double_of_a_job_starts_nothing(home: SlurmHome) -> None:
    run = home.submit("sh", "-c", "echo x >> $GOFER_OUTPUT_DIR/count; sleep 2")
    first = home.job(run)
    second = home.slurm.call(
        "sbatch",
        "--parsable",
        f"--chdir={home.handoff_folder(run)}",
        str(home.handoff_folder(run) / "job.sh"),
    )
    home.wait(run)
    home.slurm.until_state(second.strip(), "COMPLETED", "FAILED")
    assert first != second.strip()
    assert (home.run_folder(run) / "outputs/count").read_text() == "x\n"
    assert home.view(run)["state"] == "succeeded"


def test_a_run_waits_for_another_one(home: SlurmHome) -> None:
    gate = home.root / "gate"
    first = home.submit("--name", "prepare", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done")
    second = home.submit("--after", "prepare", "--each", "x=1,2", "echo", "{x}")
    why = json.loads(home.gofer("why", "--json", f"{second}-0").out)["why"]
    assert why.startswith(f"it waits for {first[-6:]} to succeed (it is ")
    gate.touch()
    assert home.wait(second)[0]["counts"] == {"succeeded": 2}


def test_a_run_whose_other_one_fails_is_cancelled(home: SlurmHome) -> None:
    gate = home.root / "gate"
    script = f"until [ -e {gate} ]; do sleep 0.1; done; exit 3"
    first = home.submit("--each", "x=1,2", "sh", "-c", script)
    ok = home.submit("--after", f"{first}-1", "true")
    late = home.submit("--after", f"{first}:any", "true")
    gate.touch()
    (done,) = home.wait(ok)
    assert (done["state"], done["reason"]) == ("cancelled", "dependency")
    assert done["why"] == f"after {first[-6:]}-1: it did not succeed"
    assert home.wait(late)[0]["state"] == "succeeded"
