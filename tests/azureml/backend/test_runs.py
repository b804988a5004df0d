"""Runs on the simulator, by the command line: sent, seen, stopped, and cleaned up after."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from azureml.backend.azure_home import AzureHome
from home import until
from services.azure import Azure

from gofer.backends.polling import SOONEST_S

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-runs")]
SECRET = "dummy-secret-value-of-a-test"
_BESIDE = "/subscriptions/{sub}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices"
JOBS = f"{_BESIDE}/workspaces/{{ws}}/jobs"


def row(home: AzureHome, run: str) -> dict[str, Any]:
    """The state of a run, from a new request."""
    found: dict[str, Any] = json.loads(home.gofer("query", "--json", run).out)
    return found


def ended(home: AzureHome, run: str) -> dict[str, Any]:
    home.gofer("wait", run, "--timeout", "280", status=None)
    return row(home, run)


def arm(azure: Azure, method: str, path: str) -> Any:
    """A request of somebody else's, with a token of its own."""
    status, found = azure.ask(method, f"{azure.workspace}{path}", token=azure.token())
    assert status < 300, found
    return found


def test_a_run_from_submit_to_its_log(home: AzureHome) -> None:
    run = home.submit("sh", "-c", "echo hello; echo done")
    assert ended(home, run)["state"] == "succeeded"
    assert "hello\ndone\n" in home.gofer("query", run).out


def test_secrets_are_only_in_the_handoff_objects(home: AzureHome, azure: Azure) -> None:
    home.environ["THE_SECRET"] = SECRET
    azure.admin("POST", "/hold", {"held": True})
    run = home.submit(
        "--env", "S=${env:THE_SECRET}", "--env", "PLAIN=seen", "sh", "-c", 'echo "[$S]" | wc -c'
    )
    job = arm(azure, "GET", f"/jobs/{run}")
    assert SECRET not in json.dumps(job) and job["properties"]["environmentVariables"] == {"PLAIN": "seen"}
    assert f"me/gofer/rooms/{run}/private.json" in home.blobs("rooms")
    client = azure.blob_client().get_container_client(home.container)
    entries = [name for name in home.blobs() if SECRET.encode() in client.download_blob(name).readall()]
    assert entries == [f"me/gofer/rooms/{run}/private.json"]
    azure.admin("POST", "/hold", {"held": False})
    assert ended(home, run)["state"] == "succeeded"
    assert str(len(SECRET) + 3) in home.gofer("query", run).out
    assert not [name for name in home.blobs("rooms") if name.endswith("private.json")]
    assert not [path for path in home.path.rglob("sealed/*") if path.is_file()]
    leaks = [path for path in home.path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert leaks == []


def test_what_opens_a_store_that_was_away_at_the_end_goes_with_the_next_submission(home: AzureHome) -> None:
    run = home.submit("true")
    assert ended(home, run)["state"] == "succeeded"
    (seals,) = home.path.rglob("azureml/sealed")
    (seals / f"{run}.json").write_text('{"environment": {}, "store": null, "folders": {}}')
    home.submit("true")
    assert not (seals / f"{run}.json").exists()


def test_secrets_go_when_only_the_folder_of_the_run_proves_its_end(home: AzureHome, azure: Azure) -> None:
    """The service lost its nodes after the last object of the run was in the store."""
    run = home.submit("true")
    until(lambda: f"me/gofer/runs/{run}/ends.jsonl" in home.blobs("runs"), "the end in the store")
    azure.admin("POST", f"/jobs/{run}/become", {"status": "NotResponding"})
    assert row(home, run)["state"] == "succeeded"
    assert not [path for path in home.path.rglob("sealed/*") if path.is_file()]


def test_a_failure_has_its_exit_code(home: AzureHome) -> None:
    found = ended(home, home.submit("sh", "-c", "exit 7"))
    assert (found["state"], found["reason"], found["exit_code"]) == ("failed", "exit-code", 7)


def test_two_nodes_of_four_ranks(home: AzureHome, azure: Azure) -> None:
    run = home.submit("-c", "gpu", "-n", "8", "sh", "-c", 'echo "rank $RANK of $WORLD_SIZE on $NODE_RANK"')
    assert ended(home, run)["state"] == "succeeded"
    home.gofer("query", run)
    logs = [path.read_text() for path in (home.folder / "assets" / run).rglob("rank-*.log")]
    assert sorted(logs) == sorted(f"rank {rank} of 8 on {rank // 4}\n" for rank in range(8))
    job = arm(azure, "GET", f"/jobs/{run}")
    assert job["properties"]["distribution"] == {"distributionType": "PyTorch", "processCountPerInstance": 1}


def test_an_abort(home: AzureHome, azure: Azure) -> None:
    run = home.submit("sh", "-c", "echo up; sleep 300")
    azure.wait(run, "Running")
    home.gofer("abort", run)
    assert (row(home, run)["state"], row(home, run)["reason"]) == ("cancelled", "user")
    assert azure.job(run)["status"] == "Canceled"


@pytest.mark.parametrize("kind", ["drop-after", "drop-before"])
def test_a_lost_answer_leaves_one_job(home: AzureHome, azure: Azure, kind: str) -> None:
    azure.fault(kind, "/jobs/r", method="PUT", count=2)
    run = home.submit("sh", "-c", 'echo x >> "$GOFER_OUTPUT_DIR/count"')
    assert ended(home, run)["state"] == "succeeded"
    listed = arm(azure, "GET", "/jobs?tag=gofer")
    assert [one["name"] for one in listed["value"]].count(run) == 1
    assert azure.job(run)["attempt"] == 1


def test_a_service_that_is_away_is_sent_to_later(home: AzureHome, azure: Azure) -> None:
    azure.fault("status", "/jobs/r", method="PUT", count=50, status=503)
    done = home.gofer("submit", "true", status=1)
    assert "is recorded, and the next command that can sends it" in done.err
    azure.admin("DELETE", "/faults")
    assert ended(home, "last")["state"] == "succeeded"


def test_a_refused_job_is_recorded_as_failed(tmp_path: Path, azure: Azure) -> None:
    more = '  wrong: {{kind: azureml, {where}, compute: no-such, image: "ubuntu:22.04", store: blob}}'
    home = AzureHome(tmp_path, azure, more=more)
    done = home.gofer("submit", "-c", "wrong", "true", status=1)
    assert "Azure ML refused the job" in done.err and "no-such" in done.err
    found = row(home, "last")
    assert (found["state"], found["reason"]) == ("failed", "rejected")
    assert not [name for name in home.blobs("rooms") if name.endswith("private.json")]
    home.close()


def test_a_token_that_runs_out_is_renewed(home: AzureHome, azure: Azure) -> None:
    run = home.submit("true")
    azure.admin("POST", "/tokens/expire")
    assert ended(home, run)["state"] == "succeeded"


def test_what_is_there_is_not_made_again(home: AzureHome, azure: Azure) -> None:
    home.submit("true")
    azure.admin("DELETE", "/counters")
    home.submit("true")
    found = azure.admin("GET", "/counters")["requests"]
    ours = [name for name in found if "/_sim/" not in name]
    assert [name.split(" ")[0] for name in ours] == ["PUT"] and ours[0].endswith("/jobs/{name}")


def test_what_was_remembered_and_is_gone_is_made_again(home: AzureHome, azure: Azure) -> None:
    home.submit("true")
    (known,) = home.path.rglob("known-*.json")
    held = json.loads(known.read_text())
    (environment,) = held["environments"]
    fake = {f"{environment[:-4]}dead": True}
    text = (home.folder / "gofer.yaml").read_text()
    (home.folder / "gofer.yaml").write_text(text.replace("ubuntu:22.04", "ubuntu:24.04"))
    plan = home.gofer("submit", "--dry-run", "true").out
    made = re.search(r'"environmentId": "([^"]+)"', plan)
    assert made
    known.write_text(json.dumps({**held, "environments": {**fake, made[1]: True}}))
    assert ended(home, home.submit("true"))["state"] == "succeeded"


def test_many_runs_need_one_request(home: AzureHome, azure: Azure) -> None:
    group = home.submit("--each", "n=1,2,3,4,5,6,7,8", "sh", "-c", "exit {n}")
    until(lambda: all(one["status"] == "Failed" for one in _named(azure, group)), "all ended")
    azure.admin("DELETE", "/counters")
    found = row(home, group)
    counted = azure.admin("GET", "/counters")["requests"]
    assert found["state"] == "failed"
    assert counted[f"GET {JOBS}"] == 1
    assert f"GET {JOBS}/{{name}}" not in counted
    assert not [name for name in home.blobs("rooms") if name.endswith("private.json")]


def _named(azure: Azure, group: str) -> list[dict[str, Any]]:
    jobs = [azure.job(f"{group}-{at}") for at in range(8)]
    return jobs


def test_asking_often_is_polite(home: AzureHome, azure: Azure) -> None:
    run = home.submit("sleep", "600")
    azure.wait(run, "Running")
    row(home, run)
    azure.admin("DELETE", "/counters")
    began = time.monotonic()
    for _ in range(4):
        home.gofer("list", "runs")
    passed = int((time.monotonic() - began) / SOONEST_S)  # an answer is good for so long
    counted = azure.admin("GET", "/counters")["requests"]
    assert counted.get(f"GET {JOBS}/{{name}}", 0) <= max(2, 1 + passed)
    home.gofer("abort", run)


def test_runs_of_reachable_services_have_states_when_others_are_unreachable(
    home: AzureHome, azure: Azure
) -> None:
    one, two = home.submit("true"), home.submit("true")
    for run in (one, two):
        azure.wait(run)
    azure.fault("status", f"/jobs/{two}", method="GET", count=50, status=503)
    found = home.python(f"""
from gofer.errors import Unreachable
try:
    session.backend("aml").observe([RunRef("{one}"), RunRef("{two}")])
except Unreachable as error:
    say({{name: seen.state for name, seen in error.answers.items()}})
""")
    assert found == {one: "succeeded"}


def test_a_job_that_somebody_deleted(home: AzureHome, azure: Azure) -> None:
    run = home.submit("sleep", "600")
    azure.wait(run, "Running")
    arm(azure, "POST", f"/jobs/{run}/cancel")
    azure.wait(run, "Canceled")
    arm(azure, "DELETE", f"/jobs/{run}")
    seen = home.python(f"""
seen = session.backend("aml").observe([RunRef("{run}")])["{run}"]
say([seen.state, seen.detail])
""")
    assert seen[0] == "unknown" and "a job of that name" in seen[1]


def test_preempted_and_resumed(home: AzureHome, azure: Azure) -> None:
    script = 'test -e "$GOFER_RUN_DIR/none"; test "$GOFER_ATTEMPT" = 2 || sleep 300'
    run = home.submit("-c", "vc", "-n", "1", "sh", "-c", script)
    azure.wait(run, "Running")
    until(lambda: home.blobs(f"runs/{run}/attempts/1"), "the first attempt has begun")
    azure.admin("POST", f"/jobs/{run}/preempt", {})
    azure.wait(run, "Paused")
    assert row(home, run)["state"] == "paused"
    until(lambda: [one["reason"] for one in row(home, run)["attempts"]] == ["preempted"], "what ended it")
    assert row(home, run)["state"] == "paused"
    azure.admin("POST", f"/jobs/{run}/resume", {})
    found = ended(home, run)
    assert found["state"] == "succeeded"
    assert [one["state"] for one in found["attempts"]][-1] == "succeeded" and len(found["attempts"]) == 2


def test_folders_come_by_the_service(tmp_path: Path, azure: Azure) -> None:
    home = AzureHome(tmp_path, azure)
    text = (home.folder / "gofer.yaml").read_text()
    folders = (
        "folders:\n  data: {store: blob, path: my/data, mode: copy}\n  output: {store: blob, path: my/out}\n"
    )
    (home.folder / "gofer.yaml").write_text(text + folders)
    client = azure.blob_client().get_container_client(home.container)
    client.upload_blob("me/gofer/my/data/a b.txt", b"data of a test\n")
    run = home.submit("sh", "-c", 'cat "data/a b.txt"; echo new > output/made.txt')
    assert ended(home, run)["state"] == "succeeded", home.gofer("why", run).out
    assert "data of a test" in home.gofer("query", run).out
    assert client.download_blob("me/gofer/my/out/made.txt").readall() == b"new\n"
    home.close()


def test_a_folder_to_be_read_only_is_an_input_of_the_job(home: AzureHome, azure: Azure) -> None:
    path = home.folder / "gofer.yaml"
    path.write_text(
        path.read_text() + "folders: {data: {store: blob, path: my/data, mode: mount, read_only: true}}\n"
    )
    client = azure.blob_client().get_container_client(home.container)
    client.upload_blob("me/gofer/my/data/x", b"data of a test\n")
    run = home.submit("sh", "-c", "cat data/x; if echo new > data/y; then exit 9; fi")
    assert ended(home, run)["state"] == "succeeded", home.gofer("why", run).out
    assert "data of a test" in home.log(run)
    _, job = azure.arm("GET", f"/jobs/{run}")
    assert job["properties"]["inputs"]["folder_data"]["mode"] == "ReadOnlyMount"
    assert list(client.list_blob_names(name_starts_with="me/gofer/my")) == ["me/gofer/my/data/x"]


def test_an_identity_instead_of_a_signature(tmp_path: Path, azure: Azure) -> None:
    more = "  own: {{kind: azureml, {where}, compute: cpu-cluster, store: blob, identity: managed}}"
    home = AzureHome(tmp_path, azure, more=more)
    run = home.submit("-c", "own", "sh", "-c", "echo hello")
    assert ended(home, run)["state"] == "succeeded"
    listed = arm(azure, "GET", "/datastores")
    mine = [
        one["properties"]
        for one in listed["value"]
        if one["properties"].get("containerName") == home.container
    ]
    assert [one["credentials"]["credentialsType"] for one in mine] == ["None"]
    home.close()


def test_a_run_is_read_and_stopped_from_any_folder(home: AzureHome, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = home.submit("sh", "-c", "echo there; exec sleep 600")
    until(lambda: row(home, run)["state"] == "running", "it runs", timeout_s=280)
    until(lambda: "there" in home.gofer("logs", run, cwd=elsewhere).out, "its log", timeout_s=280)
    (home.folder / "gofer.yaml").unlink()
    listed = home.gofer("list", "runs", cwd=elsewhere)
    assert "running" in listed.out and "warning" not in listed.err
    assert home.gofer("abort", run, cwd=elsewhere).out == f"{run} cancelled\n"


def test_standard_input_and_a_secret_file_reach_the_node(home: AzureHome) -> None:
    assert home.finish_with_input() == "600\nfrom here\nSHOWN=abc\nKEY=***********\n"
