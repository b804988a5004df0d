"""Jobs of the simulator: taken or refused as the service does, really run, listed, cancelled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from home import until
from services.azure import ENDED, GRACE_S, Azure
from services.azure_jobs import alive, body, cluster_body, submit, wait_for_output

from gofer.backends.azureml import names
from simulators.azure import versions
from simulators.azure.messages import Refused

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-jobs")]


def test_a_command_runs_with_the_variables_of_the_service(azure: Azure) -> None:
    submit(azure, "variables", "env", environmentVariables={"MINE": "a 'b' $c"}, experimentName="exp")
    assert azure.wait("variables")["status"] == "Completed"
    env = dict(line.split("=", 1) for line in azure.log("variables").splitlines() if "=" in line)
    assert env["MINE"] == "a 'b' $c"
    assert (env["AZUREML_RUN_ID"], env["AZUREML_EXPERIMENT_NAME"]) == ("variables", "exp")
    assert env["AZUREML_ARM_WORKSPACE_NAME"] == "sim-ws"
    assert env["IDENTITY_ENDPOINT"].startswith(azure.plain)
    assert env["AZ_BATCH_HOST_LIST"] == "127.0.0.1"


def test_the_way_of_a_job(azure: Azure) -> None:
    made = submit(azure, "way", "true")
    assert made["properties"]["status"] == "NotStarted"
    statuses = [word for word, _ in azure.wait("way")["history"]]
    assert statuses == ["NotStarted", "Queued", "Preparing", "Running", "Finalizing", "Completed"]
    _, shown = azure.arm("GET", "/jobs/way")
    assert shown["properties"]["properties"].keys() >= {"StartTimeUtc", "EndTimeUtc"}
    assert shown["properties"]["services"]["Studio"]["endpoint"].startswith(
        "https://ml.azure.com/runs/way?wsid="
    )


@pytest.mark.parametrize(("kind", "word"), [("PyTorch", "RANK"), ("Mpi", "OMPI_COMM_WORLD_RANK")])
def test_a_process_for_each_node_and_rank(azure: Azure, kind: str, word: str) -> None:
    name = f"ranks-{kind}"
    distribution = {"distributionType": kind, "processCountPerInstance": 2}
    resources = {"instanceCount": 2}
    submit(azure, name, f"echo ${word}; pwd; env", distribution=distribution, resources=resources)
    assert azure.wait(name)["status"] == "Completed"
    logs = [azure.log(name, f"user_logs/std_log_process_{rank}.txt") for rank in range(4)]
    assert [log.splitlines()[0] for log in logs] == ["0", "1", "2", "3"]
    folders = [log.splitlines()[1] for log in logs]
    assert folders[0] == folders[1] != folders[2] == folders[3]
    master = "MASTER_ADDR=127.0.0.1" if kind == "PyTorch" else "AZ_BATCHAI_MPI_MASTER_NODE=127.0.0.1"
    assert all(master in log.splitlines() for log in logs)
    assert all("AZ_BATCH_HOST_LIST=127.0.0.1,127.0.0.2" in log.splitlines() for log in logs)


def test_one_failing_process_ends_the_others(azure: Azure) -> None:
    distribution = {"distributionType": "PyTorch", "processCountPerInstance": 2}
    submit(azure, "peer", "[ $RANK = 1 ] && exit 9; sleep 600", distribution=distribution)
    job = azure.wait("peer")
    assert job["status"] == "Failed"
    assert "'worker 1' exited with code 9" in job["error"]["message"]


def test_the_error_of_a_failed_job_is_in_its_history_alone(azure: Azure) -> None:
    submit(azure, "failed", "exit 3")
    azure.wait("failed")
    _, details = azure.ask("GET", f"/history/v1.0{azure.workspace}/runs/failed/details")
    assert details["status"] == "Failed"
    assert details["error"]["error"]["innerError"]["code"] == "JobExecutionError"
    _, shown = azure.arm("GET", "/jobs/failed")
    assert "error" not in shown["properties"]


def test_a_log_grows_while_the_job_runs(azure: Azure) -> None:
    submit(azure, "growing", "echo first; sleep 600")
    wait_for_output(azure, "growing", "first")
    assert azure.job("growing")["status"] == "Running"
    azure.arm("POST", "/jobs/growing/cancel")
    assert azure.wait("growing")["status"] == "Canceled"


def test_cancel_tells_the_processes_and_then_ends_them(azure: Azure) -> None:
    submit(azure, "told", "trap 'echo told; exit 0' TERM; echo up; sleep 600 & wait")
    wait_for_output(azure, "told", "up")
    status, _ = azure.arm("POST", "/jobs/told/cancel")
    assert status == 202
    assert azure.wait("told")["status"] == "Canceled"
    assert "told" in azure.log("told")


def test_a_process_that_ignores_the_signal_is_killed_after_the_grace(azure: Azure) -> None:
    submit(azure, "deaf", "trap '' TERM; echo up; while :; do sleep 1; done")
    wait_for_output(azure, "deaf", "up")
    pid = azure.job("deaf")["pids"]["0"]
    azure.arm("POST", "/jobs/deaf/cancel")
    job = azure.wait("deaf")
    assert job["status"] == "Canceled"
    times = dict(job["history"])
    assert times["Canceled"] - times["CancelRequested"] > GRACE_S
    assert not alive(pid)


@pytest.fixture(scope="module")
def fellow(azure: Azure, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A process in its own session, of a job that continues to run."""
    path = tmp_path_factory.mktemp("fellow") / "pids"
    submit(azure, "fellow", f"{apart(path)} sleep 1000")
    return pids_in(path, 1)[0]


@pytest.mark.parametrize(
    ("way", "order"),
    [
        ("itself", None),
        ("cancel", None),
        ("preempt", {}),
        ("fail-node", {}),
        ("fail-node", {"restart": True}),
    ],
)
def test_nothing_on_its_nodes_outlives_a_job(
    azure: Azure, fellow: str, way: str, order: dict[str, bool] | None, tmp_path: Path
) -> None:
    """As nothing outlives its container; what other jobs run is not touched."""
    name, path = f"outlived-{way}-{len(order or {})}", tmp_path / "pids"
    rest = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    wanted = cluster_body(azure, f"trap '' TERM; {apart(path)} {rest}", nodes=2)
    assert azure.arm("PUT", f"/jobs/{name}", wanted)[0] == 201
    found = pids_in(path, 2)
    if way == "itself":
        (tmp_path / "go").touch()
    elif order is None:
        azure.arm("POST", f"/jobs/{name}/{way}")
    else:
        azure.admin("POST", f"/jobs/{name}/{way}", order)
    azure.wait(name, "Paused", *ENDED)
    until(lambda: not any(alive(pid) for pid in found), "what the job left is gone")
    assert alive(fellow)


def apart(path: Path) -> str:
    """Words of a command that starts a process apart and notes its pid."""
    return f"setsid sh -c 'echo $$ >> {path}; exec sleep 1000' &"


def pids_in(path: Path, count: int) -> list[str]:
    """Once they are there."""

    def pids() -> list[str]:
        return path.read_text().split() if path.exists() else []

    return until(lambda: pids() if len(pids()) == count else [], f"{count} processes apart")


def test_a_time_limit_is_kept(azure: Azure) -> None:
    submit(azure, "limit", "sleep 600", limits={"timeout": "PT1S"})
    job = azure.wait("limit")
    assert job["status"] == "Canceled"
    assert job["error"]["innerError"]["code"] == "MaxRunDurationExceeded"


def test_the_same_body_again_changes_nothing(azure: Azure) -> None:
    first = submit(azure, "again", "echo one", displayName="x")
    second = submit(azure, "again", "echo one", displayName="x")
    assert first["systemData"] == second["systemData"]
    azure.wait("again")
    assert azure.job("again")["attempt"] == 1
    status, answer = azure.arm("PUT", "/jobs/again", body(azure, "echo other"))
    assert (status, answer["error"]["code"]) == (400, "UserError")
    assert "'command' cannot be changed" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"jobType": "Sweep"}, 400, "Command only"),
        ({"command": "cat ${{inputs.nothing}}"}, 400, "inputs.nothing"),
        ({"computeId": "nowhere"}, 404, "nowhere"),
        ({"environmentId": None}, 400, "environmentId"),
        ({"environmentId": "azureml:nothing:1"}, 404, "nothing"),
        ({"codeId": "/subscriptions/x/codes/y/versions/1"}, 404, "code asset"),
        ({"limits": {"timeout": "1h"}}, 400, "ISO 8601"),
        ({"resources": {"instanceCount": 5}}, 400, "exceeds the maximum"),
        ({"environmentVariables": {"A": 1}}, 400, "must be strings"),
        ({"tags": {"a": 1}}, 400, "must be strings"),
        ({"experimentName": "a b"}, 400, "experiment name 'a b'"),
        ({"experimentName": "_a"}, 400, "experiment name '_a'"),
        ({"experimentName": "é"}, 400, "experiment name 'é'"),
        ({"experimentName": "a" * 256}, 400, "at most 255"),
    ],
)
def test_what_the_service_refuses(azure: Azure, change: dict[str, Any], status: int, words: str) -> None:
    wanted = body(azure, "true")
    wanted["properties"] |= change
    found, answer = azure.arm("PUT", "/jobs/refused", wanted)
    assert found == status, answer
    assert words in answer["error"]["message"]
    assert azure.arm("GET", "/jobs/refused")[0] == 404


def test_pages_and_filters_of_a_list(azure: Azure) -> None:
    jobs = [{"name": f"listed-{index}", "tags": {"run": str(index % 2)}} for index in range(250)]
    azure.admin("POST", "/jobs", {"jobs": jobs})
    names, path, pages = [], f"{azure.workspace}/jobs?tag=run%3D1", 0
    while path:
        _, page = azure.ask("GET", path)
        names += [one["name"] for one in page["value"]]
        path, pages = page.get("nextLink", "").removeprefix(azure.base), pages + 1
    assert names == [f"listed-{index}" for index in range(249, 0, -2)]
    assert pages == 2
    _, none = azure.arm("GET", "/jobs?jobType=Sweep")
    assert none["value"] == []


def test_sixteen_clients_at_once(azure: Azure) -> None:
    azure.admin("POST", "/hold", {"held": True})
    names = [f"many-{index % 32}" for index in range(64)]
    try:
        with ThreadPoolExecutor(16) as pool:
            statuses = list(
                pool.map(lambda name: azure.arm("PUT", f"/jobs/{name}", body(azure, "true"))[0], names)
            )
    finally:
        azure.admin("POST", "/hold", {"held": False})
    assert sorted(statuses) == [200] * 32 + [201] * 32
    for name in set(names):
        assert azure.wait(name)["attempt"] == 1


def test_a_workspace_that_is_not_there(azure: Azure) -> None:
    status, answer = azure.ask("GET", azure.workspace.replace("sim-ws", "other") + "/jobs")
    assert (status, answer["error"]["code"]) == (404, "ResourceNotFound")


@pytest.mark.parametrize(
    ("version", "code"),
    [("", "MissingApiVersionParameter"), ("2025-02-30-preview", "InvalidApiVersionParameter")],
)
@pytest.mark.parametrize("path", ["", "/jobs", "/computes", "/environments", "/datastores"])
def test_arm_needs_a_version_that_there_is(azure: Azure, path: str, version: str, code: str) -> None:
    status, answer = azure.ask("GET", f"{azure.workspace}{path}?api-version={version}")
    assert (status, answer["error"]["code"]) == (400, code)


def test_each_kind_of_resource_has_versions_of_its_own(azure: Azure) -> None:
    cluster = f"{azure.workspace.split('/workspaces/')[0]}/virtualClusters/sim-vc?api-version="
    assert azure.ask("GET", f"{cluster}2021-03-01-preview")[0] == 200
    assert azure.ask("GET", f"{cluster}2024-04-01")[0] == 400
    with pytest.raises(Refused):
        versions.check("/tenants", None)
    # What is no resource of ARM has none.
    versions.check("/history/v1.0/subscriptions/{sub}", None)


def test_every_version_that_gofer_asks_with_is_known() -> None:
    there = "/subscriptions/{sub}/workspaces/{ws}"
    for version in (names.JOBS_API, names.ENVIRONMENTS_API, names.DATASTORES_API, names.COMPUTES_API):
        versions.check(there, version)
    versions.check(there, names.WORKSPACES_API)
    versions.check("/subscriptions/{sub}/virtualClusters", names.VIRTUAL_CLUSTERS_API)
