"""Runs on the simulator, by the command line: sent, seen, stopped, and cleaned up after."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from azureml.backend.desk import Desk
from home import until
from services.azure import Azure

from gofer.backends.polling import SOONEST_S

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-runs")]
SECRET = "dummy-secret-value-of-a-test"
_BESIDE = "/subscriptions/{sub}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices"
JOBS = f"{_BESIDE}/workspaces/{{ws}}/jobs"


def row(desk: Desk, run: str) -> dict[str, Any]:
    """How a run stands, asked anew."""
    found: dict[str, Any] = json.loads(desk.gofer("query", "--json", run).out)
    return found


def ended(desk: Desk, run: str) -> dict[str, Any]:
    desk.gofer("wait", run, "--timeout", "280", status=None)
    return row(desk, run)


def arm(azure: Azure, method: str, path: str) -> Any:
    """A request of somebody else's, with a token of its own."""
    status, found = azure.ask(method, f"{azure.workspace}{path}", token=azure.token())
    assert status < 300, found
    return found


def test_a_run_from_submit_to_its_log(desk: Desk) -> None:
    run = desk.submit("sh", "-c", "echo hello; echo done")
    assert ended(desk, run)["state"] == "succeeded"
    assert "hello\ndone\n" in desk.gofer("query", run).out


def test_secrets_are_in_the_room_and_nowhere_else(desk: Desk, azure: Azure) -> None:
    desk.environ["THE_SECRET"] = SECRET
    azure.admin("POST", "/hold", {"held": True})
    run = desk.submit(
        "--env", "S=${env:THE_SECRET}", "--env", "PLAIN=seen", "sh", "-c", 'echo "[$S]" | wc -c'
    )
    job = arm(azure, "GET", f"/jobs/{run}")
    assert SECRET not in json.dumps(job) and job["properties"]["environmentVariables"] == {"PLAIN": "seen"}
    assert f"me/gofer/rooms/{run}/private.json" in desk.blobs("rooms")
    client = azure.blob_client().get_container_client(desk.container)
    told = [name for name in desk.blobs() if SECRET.encode() in client.download_blob(name).readall()]
    assert told == [f"me/gofer/rooms/{run}/private.json"]
    azure.admin("POST", "/hold", {"held": False})
    assert ended(desk, run)["state"] == "succeeded"
    assert str(len(SECRET) + 3) in desk.gofer("query", run).out
    assert not [name for name in desk.blobs("rooms") if name.endswith("private.json")]
    assert not [path for path in desk.path.rglob("sealed/*") if path.is_file()]
    leaks = [path for path in desk.path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert leaks == []


def test_what_opens_a_store_that_was_away_at_the_end_goes_with_the_next_submission(desk: Desk) -> None:
    run = desk.submit("true")
    assert ended(desk, run)["state"] == "succeeded"
    (seals,) = desk.path.rglob("azureml/sealed")
    (seals / f"{run}.json").write_text('{"environment": {}, "store": null, "folders": {}}')
    desk.submit("true")
    assert not (seals / f"{run}.json").exists()


def test_a_failure_has_its_exit_code(desk: Desk) -> None:
    found = ended(desk, desk.submit("sh", "-c", "exit 7"))
    assert (found["state"], found["reason"], found["exit_code"]) == ("failed", "exit-code", 7)


def test_two_nodes_of_four_ranks(desk: Desk, azure: Azure) -> None:
    run = desk.submit("-c", "gpu", "-n", "8", "sh", "-c", 'echo "rank $RANK of $WORLD_SIZE on $NODE_RANK"')
    assert ended(desk, run)["state"] == "succeeded"
    desk.gofer("query", run)
    logs = [path.read_text() for path in (desk.folder / "assets" / run).rglob("rank-*.log")]
    assert sorted(logs) == sorted(f"rank {rank} of 8 on {rank // 4}\n" for rank in range(8))
    job = arm(azure, "GET", f"/jobs/{run}")
    assert job["properties"]["distribution"] == {"distributionType": "PyTorch", "processCountPerInstance": 1}


def test_an_abort(desk: Desk, azure: Azure) -> None:
    run = desk.submit("sh", "-c", "echo up; sleep 300")
    azure.wait(run, "Running")
    desk.gofer("abort", run)
    assert (row(desk, run)["state"], row(desk, run)["reason"]) == ("cancelled", "user")
    assert azure.job(run)["status"] == "Canceled"


@pytest.mark.parametrize("kind", ["drop-after", "drop-before"])
def test_a_lost_answer_leaves_one_job(desk: Desk, azure: Azure, kind: str) -> None:
    azure.fault(kind, "/jobs/r", method="PUT", count=2)
    run = desk.submit("sh", "-c", 'echo x >> "$GOFER_OUTPUT_DIR/count"')
    assert ended(desk, run)["state"] == "succeeded"
    listed = arm(azure, "GET", "/jobs?tag=gofer")
    assert [one["name"] for one in listed["value"]].count(run) == 1
    assert azure.job(run)["attempt"] == 1


def test_a_service_that_is_away_is_sent_to_later(desk: Desk, azure: Azure) -> None:
    azure.fault("status", "/jobs/r", method="PUT", count=50, status=503)
    done = desk.gofer("submit", "true", status=1)
    assert "is recorded, and the next command that can sends it" in done.err
    azure.admin("DELETE", "/faults")
    assert ended(desk, "last")["state"] == "succeeded"


def test_a_refused_job_is_recorded_as_failed(tmp_path: Path, azure: Azure) -> None:
    more = '  wrong: {{kind: azureml, {where}, compute: no-such, image: "ubuntu:22.04", store: blob}}'
    desk = Desk(tmp_path, azure, more=more)
    done = desk.gofer("submit", "-c", "wrong", "true", status=1)
    assert "Azure ML refused the job" in done.err and "no-such" in done.err
    found = row(desk, "last")
    assert (found["state"], found["reason"]) == ("failed", "rejected")
    assert not [name for name in desk.blobs("rooms") if name.endswith("private.json")]
    desk.close()


def test_a_token_that_runs_out_is_renewed(desk: Desk, azure: Azure) -> None:
    run = desk.submit("true")
    azure.admin("POST", "/tokens/expire")
    assert ended(desk, run)["state"] == "succeeded"


def test_what_is_there_is_not_made_again(desk: Desk, azure: Azure) -> None:
    desk.submit("true")
    azure.admin("DELETE", "/counters")
    desk.submit("true")
    found = azure.admin("GET", "/counters")["requests"]
    ours = [name for name in found if "/_sim/" not in name]
    assert [name.split(" ")[0] for name in ours] == ["PUT"] and ours[0].endswith("/jobs/{name}")


def test_what_was_remembered_and_is_gone_is_made_again(desk: Desk, azure: Azure) -> None:
    desk.submit("true")
    (known,) = desk.path.rglob("known-*.json")
    held = json.loads(known.read_text())
    (environment,) = held["environments"]
    fake = {f"{environment[:-4]}dead": True}
    text = (desk.folder / "gofer.yaml").read_text()
    (desk.folder / "gofer.yaml").write_text(text.replace("ubuntu:22.04", "ubuntu:24.04"))
    plan = desk.gofer("submit", "--dry-run", "true").out
    made = re.search(r'"environmentId": "([^"]+)"', plan)
    assert made
    known.write_text(json.dumps({**held, "environments": {**fake, made[1]: True}}))
    assert ended(desk, desk.submit("true"))["state"] == "succeeded"


def test_many_runs_are_asked_about_at_once(desk: Desk, azure: Azure) -> None:
    group = desk.submit("--each", "n=1,2,3,4,5,6,7,8", "sh", "-c", "exit {n}")
    until(lambda: all(one["status"] == "Failed" for one in _named(azure, group)), "all ended")
    azure.admin("DELETE", "/counters")
    found = row(desk, group)
    counted = azure.admin("GET", "/counters")["requests"]
    assert found["state"] == "failed"
    assert counted[f"GET {JOBS}"] == 1
    assert f"GET {JOBS}/{{name}}" not in counted
    assert not [name for name in desk.blobs("rooms") if name.endswith("private.json")]


def _named(azure: Azure, group: str) -> list[dict[str, Any]]:
    jobs = [azure.job(f"{group}-{at}") for at in range(8)]
    return jobs


def test_asking_often_is_polite(desk: Desk, azure: Azure) -> None:
    run = desk.submit("sleep", "600")
    azure.wait(run, "Running")
    row(desk, run)
    azure.admin("DELETE", "/counters")
    began = time.monotonic()
    for _ in range(4):
        desk.gofer("list", "runs")
    passed = int((time.monotonic() - began) / SOONEST_S)  # an answer is good for so long
    counted = azure.admin("GET", "/counters")["requests"]
    assert counted.get(f"GET {JOBS}/{{name}}", 0) <= max(2, 1 + passed)
    desk.gofer("abort", run)


def test_what_could_be_asked_is_known_when_the_rest_could_not(desk: Desk, azure: Azure) -> None:
    one, two = desk.submit("true"), desk.submit("true")
    for run in (one, two):
        azure.wait(run)
    azure.fault("status", f"/jobs/{two}", method="GET", count=50, status=503)
    found = desk.python(f"""
from gofer.errors import Unreachable
try:
    session.backend("aml").observe([RunRef("{one}"), RunRef("{two}")])
except Unreachable as error:
    say({{name: seen.state for name, seen in error.answers.items()}})
""")
    assert found == {one: "succeeded"}


def test_a_job_that_somebody_deleted(desk: Desk, azure: Azure) -> None:
    run = desk.submit("sleep", "600")
    azure.wait(run, "Running")
    arm(azure, "POST", f"/jobs/{run}/cancel")
    azure.wait(run, "Canceled")
    arm(azure, "DELETE", f"/jobs/{run}")
    seen = desk.python(f"""
seen = session.backend("aml").observe([RunRef("{run}")])["{run}"]
say([seen.state, seen.detail])
""")
    assert seen[0] == "unknown" and "a job of that name" in seen[1]


def test_preempted_and_resumed(desk: Desk, azure: Azure) -> None:
    script = 'test -e "$GOFER_RUN_DIR/none"; test "$GOFER_ATTEMPT" = 2 || sleep 300'
    run = desk.submit("-c", "vc", "-n", "1", "sh", "-c", script)
    azure.wait(run, "Running")
    until(lambda: desk.blobs(f"runs/{run}/attempts/1"), "the first attempt has begun")
    azure.admin("POST", f"/jobs/{run}/preempt", {})
    azure.wait(run, "Paused")
    assert row(desk, run)["state"] == "paused"
    until(lambda: [one["reason"] for one in row(desk, run)["attempts"]] == ["preempted"], "what ended it")
    assert row(desk, run)["state"] == "paused"
    azure.admin("POST", f"/jobs/{run}/resume", {})
    found = ended(desk, run)
    assert found["state"] == "succeeded"
    assert [one["state"] for one in found["attempts"]][-1] == "succeeded" and len(found["attempts"]) == 2


def test_folders_come_by_the_service(tmp_path: Path, azure: Azure) -> None:
    desk = Desk(tmp_path, azure)
    text = (desk.folder / "gofer.yaml").read_text()
    folders = (
        "folders:\n  data: {store: blob, path: my/data, mode: copy}\n  output: {store: blob, path: my/out}\n"
    )
    (desk.folder / "gofer.yaml").write_text(text + folders)
    client = azure.blob_client().get_container_client(desk.container)
    client.upload_blob("me/gofer/my/data/a b.txt", b"data of a test\n")
    run = desk.submit("sh", "-c", 'cat "data/a b.txt"; echo new > output/made.txt')
    assert ended(desk, run)["state"] == "succeeded", desk.gofer("why", run).out
    assert "data of a test" in desk.gofer("query", run).out
    assert client.download_blob("me/gofer/my/out/made.txt").readall() == b"new\n"
    desk.close()


def test_a_folder_to_be_read_only_is_an_input_of_the_job(desk: Desk, azure: Azure) -> None:
    path = desk.folder / "gofer.yaml"
    path.write_text(
        path.read_text() + "folders: {data: {store: blob, path: my/data, mode: mount, read_only: true}}\n"
    )
    client = azure.blob_client().get_container_client(desk.container)
    client.upload_blob("me/gofer/my/data/x", b"data of a test\n")
    run = desk.submit("sh", "-c", "cat data/x; if echo new > data/y; then exit 9; fi")
    assert ended(desk, run)["state"] == "succeeded", desk.gofer("why", run).out
    assert "data of a test" in desk.log(run)
    _, job = azure.arm("GET", f"/jobs/{run}")
    assert job["properties"]["inputs"]["folder_data"]["mode"] == "ReadOnlyMount"
    assert list(client.list_blob_names(name_starts_with="me/gofer/my")) == ["me/gofer/my/data/x"]


def test_an_identity_instead_of_a_signature(tmp_path: Path, azure: Azure) -> None:
    more = "  own: {{kind: azureml, {where}, compute: cpu-cluster, store: blob, identity: managed}}"
    desk = Desk(tmp_path, azure, more=more)
    run = desk.submit("-c", "own", "sh", "-c", "echo hello")
    assert ended(desk, run)["state"] == "succeeded"
    listed = arm(azure, "GET", "/datastores")
    mine = [
        one["properties"]
        for one in listed["value"]
        if one["properties"].get("containerName") == desk.container
    ]
    assert [one["credentials"]["credentialsType"] for one in mine] == ["None"]
    desk.close()


def test_a_run_is_read_and_stopped_from_any_folder(desk: Desk, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = desk.submit("sh", "-c", "echo there; exec sleep 600")
    until(lambda: row(desk, run)["state"] == "running", "it runs", timeout_s=280)
    until(lambda: "there" in desk.gofer("logs", run, cwd=elsewhere).out, "its log", timeout_s=280)
    (desk.folder / "gofer.yaml").unlink()
    listed = desk.gofer("list", "runs", cwd=elsewhere)
    assert "running" in listed.out and "warning" not in listed.err
    assert desk.gofer("abort", run, cwd=elsewhere).out == f"{run} cancelled\n"


def test_standard_input_and_a_secret_file_reach_the_node(desk: Desk) -> None:
    assert desk.finish_with_input() == "600\nfrom here\nSHOWN=abc\nKEY=***********\n"
