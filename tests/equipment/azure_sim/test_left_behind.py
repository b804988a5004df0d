"""Jobs that another tool left in the workspace, and what the simulator knows after it was killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import until
from services.azure import Azure, azure_sim
from services.azure_jobs import alive, cluster_body, submit

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-left")]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Azure]:
    """A simulator of the test's own, to be killed."""
    with azure_sim(tmp_path / "azure") as running:
        yield running


def test_a_job_of_the_first_sdk_in_the_old_layout(azure: Azure) -> None:
    name = "jianfw_1563257309_60ce2fc7"
    definition = {"arguments": ["--command", "python train.py"], "nodeCount": 2, "target": "NC24"}
    logs = {"azureml-logs/70_driver_log_0.txt": "line one\n", "azureml-logs/55_batchai.txt": "pulled\n"}
    wanted = {"name": name, "experiment": "jianfw", "status": "Failed", "logs": logs, "nodes": 2}
    azure.admin("POST", "/jobs", {**wanted, "run_definition": definition, "created": 1563257309.0})
    _, details = azure.ask("GET", f"/history/v1.0{azure.workspace}/experiments/jianfw/runs/{name}/details")
    assert details["runDefinition"] == definition
    assert set(details["logFiles"]) == set(logs)
    assert details["createdTimeUtc"].startswith("2019-07-16")
    assert azure.log(name, "azureml-logs/70_driver_log_0.txt") == "line one\n"
    _, shown = azure.arm("GET", f"/jobs/{name}")
    assert (shown["properties"]["status"], shown["properties"]["experimentName"]) == ("Failed", "jianfw")
    _, page = azure.ask("POST", f"/history/v1.0{azure.workspace}/experiments/jianfw/runs:query", {"top": 5})
    assert [one["runId"] for one in page["value"]] == [name]


def test_artifacts_are_listed_and_read(azure: Azure) -> None:
    azure.admin(
        "POST", "/jobs", {"name": "artifacts", "logs": {"user_logs/std_log.txt": "x", "outputs/m": "y"}}
    )
    run = f"/history/v1.0{azure.workspace}/runs/artifacts"
    _, listed = azure.ask("GET", f"{run}/artifacts")
    assert [one["path"] for one in listed["value"]] == ["outputs/m", "user_logs/std_log.txt"]
    _, content = azure.ask("GET", f"{run}/artifacts/contentinfo?path=outputs/m")
    assert content["contentUri"].startswith(azure.blobs)
    assert azure.ask("GET", f"{run}/artifacts/contentinfo?path=none")[0] == 404


def test_new_jobs_may_have_logs_in_the_old_layout(azure: Azure) -> None:
    submit(azure, "old", "echo old", properties={"sim.old-logs": "yes"})
    azure.wait("old")
    assert azure.log("old", "azureml-logs/70_driver_log.txt") == "old\n"
    assert {name[:15] for name in azure.job("old")["logs"]} == {
        "azureml-logs/70",
        "azureml-logs/55",
        "azureml-logs/75",
    }


def test_what_was_known_is_known_after_a_kill(own: Azure) -> None:
    submit(own, "ended", "echo kept", tags={"a": "b"})
    own.wait("ended")
    apart = f"setsid sh -c 'echo $$ >> {own.folder}/apart; exec sleep 600' &"
    submit(own, "running", f"{apart} echo $$ >> {own.folder}/pids; sleep 600")
    own.arm("PUT", "/jobs/cluster", cluster_body(own, "sleep 600"))
    _wait_for_lines(own.folder / "pids", 1)
    apart = _wait_for_lines(own.folder / "apart", 1)[0]
    own.wait("cluster", "Running")
    own.admin("POST", "/jobs/cluster/preempt", {})
    own.wait("cluster", "Paused")
    own.kill()
    own.start()
    _, shown = own.arm("GET", "/jobs/ended")
    assert (shown["properties"]["status"], shown["properties"]["tags"]) == ("Completed", {"a": "b"})
    assert own.log("ended") == "kept\n"
    assert own.job("cluster")["status"] == "Paused"
    # The one that ran is run again, and its first process is not left beside the second.
    first, second = _wait_for_lines(own.folder / "pids", 2)
    assert not alive(first)
    assert alive(second)
    until(lambda: not alive(apart), "nor is what it had put apart")
    own.arm("POST", "/jobs/running/cancel")
    assert own.wait("running")["status"] == "Canceled"


def test_a_simulator_ends_on_request_while_others_wait(own: Azure) -> None:
    """Its jobs are as they were: the next one runs those again that ran, and begins no other meanwhile."""
    submit(own, "ran", f"echo $$ >> {own.folder}/pids; sleep 600")
    own.arm("PUT", "/jobs/cluster", cluster_body(own, "sleep 600"))
    first = _wait_for_lines(own.folder / "pids", 1)[0]
    own.wait("cluster", "Running")
    own.admin("POST", "/jobs/cluster/preempt", {"resume_s": 600})
    own.wait("cluster", "Paused")
    for number in range(4):
        submit(own, f"just-{number}", f"echo $$ >> {own.folder}/just; sleep 600")
    own.process.terminate()
    assert own.process.wait(60) == 0
    begun = own.folder / "just"
    pids = begun.read_text().split() if begun.exists() else []
    assert not any(alive(pid) for pid in [first, *pids])
    own.start()
    assert len(_wait_for_lines(own.folder / "pids", 2)) == 2
    assert own.job("ran")["attempt"] == 2
    assert own.job("cluster")["status"] == "Paused"


def test_a_job_that_was_left_running_is_not_run_and_can_be_cancelled(azure: Azure) -> None:
    azure.admin("POST", "/jobs", {"name": "left", "status": "Running", "command": "exit 1"})
    assert azure.job("left")["attempt"] == 0
    azure.arm("POST", "/jobs/left/cancel")
    assert azure.wait("left")["status"] == "Canceled"


def _wait_for_lines(path: Path, count: int) -> list[str]:
    deadline = time.monotonic() + 120
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert time.monotonic() < deadline, f"{path} has fewer than {count} lines"
        time.sleep(0.1)
    return path.read_text().splitlines()
