"""Jobs that gofer did not start, and the service's own logs, through every verb."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from azure.storage.blob import BlobClient
from azureml.seeds.layout import OLD_JOB, OLD_LOGS, RANK_0, XT_JOB, OlderToolHome
from home import until
from services.azure import Azure

pytestmark = [pytest.mark.xdist_group("azure-seeds"), pytest.mark.timeout(900)]


@pytest.fixture
def act(older_home: OlderToolHome) -> OlderToolHome:
    older_home.act()
    return older_home


def leave(older_home: OlderToolHome, name: str, status: str = "Completed", **more: object) -> None:
    older_home.azure.admin("POST", "/jobs", {"name": name, "status": status, **more})


def names(out: str) -> list[str]:
    return [one["name"] for one in json.loads(out)]


def test_the_jobs_of_the_service_and_what_narrows_them(act: OlderToolHome) -> None:
    mark = f"m{time.time_ns()}"
    leave(act, f"{mark}-a", experiment=mark, tags={mark: "x"}, created_by="Jo Doe")
    leave(act, f"{mark}-b", "Failed", experiment=mark, created_by="Al")
    leave(act, f"{mark}-c", "Canceled", experiment="other")
    listing = ["list", "jobs", "--server", "--json"]
    assert set(names(act.gofer(*listing, "--experiment", mark).out)) == {f"{mark}-a", f"{mark}-b"}
    assert names(act.gofer(*listing, "--experiment", mark, "--status", "failed").out) == [f"{mark}-b"]
    assert names(act.gofer(*listing, "--experiment", mark, "--status", "Completed").out) == [f"{mark}-a"]
    assert names(act.gofer(*listing, "--tag", mark).out) == [f"{mark}-a"]
    assert names(act.gofer(*listing, "--experiment", mark, "--user", "jo").out) == [f"{mark}-a"]
    assert len(names(act.gofer(*listing, "--max", "1").out)) == 1
    table = act.gofer("-c", "c1", "list", "jobs", "--server", "--experiment", mark).out
    assert "failed" in table
    assert f"{mark}-a" in table
    # None of them is a run of gofer's until it is named.
    assert act.gofer("list", "jobs", "--json").out == "[]\n"
    assert "add `--server`" in act.gofer("list", "jobs", "--status", "failed", status=2).err
    wrong = act.gofer("list", "jobs", "--server", "--status", "faild", status=2).err
    assert "did you mean `failed`?" in wrong


def test_a_target_without_a_service_has_no_such_list(act: OlderToolHome) -> None:
    done = act.gofer("-c", "local", "list", "jobs", "--server", status=1)
    assert "have only jobs of gofer" in done.err


def test_an_end_that_fits_several_and_one_that_fits_none(act: OlderToolHome) -> None:
    mark = f"e{time.time_ns()}"
    leave(act, f"one-{mark}", command="ls one")
    leave(act, f"two-{mark}", command="ls two")
    done = act.gofer("q", mark, status=2)
    assert f"`{mark}` matches 2 jobs of the service:" in done.err
    assert f"one-{mark}" in done.err
    assert "no run has the id or the name" in act.gofer("q", "nosuchjob", status=2).err
    assert act.gofer("list", "runs", "--json").out == "[]\n"


def test_a_service_that_does_not_answer_is_named(act: OlderToolHome) -> None:
    act.azure.fault("status", r"/jobs", status=403, count=50)
    try:
        done = act.gofer("q", "nosuchjob", status=2)
    finally:
        act.azure.admin("DELETE", "/faults")
    assert "warning: the service of `aml` was not asked" in done.err
    assert "no run has the id or the name" in done.err


def test_every_verb_works_on_a_job_that_was_adopted(act: OlderToolHome) -> None:
    act.need("old job")
    act.gofer("q", "e2fc7")
    shown = act.view("e2fc7")
    assert (shown["state"], shown["reason"], shown["snapshot"]) == ("cancelled", "user", None)
    assert (shown["gpus"], shown["nodes"], shown["procs"], shown["target"]) == (8, 2, 4, "aml")
    assert shown["command"] == ["python", "train.py", "--data", "voc20"]
    assert OLD_JOB in act.gofer("list", "runs").out
    assert act.gofer("logs", "e2fc7").out == OLD_LOGS[RANK_0]
    assert act.gofer("logs", "--tail", "1", "e2fc7").out == "trainer.py:138 do_train(): iter: 43000\n"
    assert act.gofer("logs", "--rank", "2", "e2fc7").out == "rank 2\n"
    assert act.gofer("view", "log", "--rank", "2", "e2fc7").out == "rank 2\n"
    assert act.gofer("wait", "e2fc7", status=1).out == f"{OLD_JOB} cancelled user\n"
    assert "was cancelled" in act.gofer("why", "e2fc7").out
    assert OLD_JOB in act.gofer("view", "portal", "e2fc7").out
    act.gofer("extract", "e2fc7", "out")
    assert (act.folder / "out/logs" / RANK_0).read_text() == OLD_LOGS[RANK_0]
    assert act.gofer("abort", "e2fc7").err.count("has already ended") == 1
    act.gofer("ledger", "rebuild")
    assert OLD_JOB in act.gofer("list", "runs").out


@pytest.mark.parametrize("reading", ["run.logs()", "''.join(run.follow())"], ids=["read", "follow"])
def test_python_reads_the_log_that_the_command_line_prints(act: OlderToolHome, reading: str) -> None:
    act.need("old job")
    code = f"import gofer; run = gofer.Run.find('{OLD_JOB}'); print({reading}, end='')"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(
        argv, cwd=act.folder, env=act.environ, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == OLD_LOGS[RANK_0]


def test_only_what_is_new_of_a_log_is_read(act: OlderToolHome) -> None:
    act.need("old job")
    act.azure.admin("POST", f"/jobs/{OLD_JOB}/become", {"status": "Running"})
    act.gofer("q", OLD_JOB)
    copy = act.folder / "assets" / OLD_JOB / RANK_0
    # A mark in the copy survives: its bytes are not asked for again.
    copy.write_text("MARK" + copy.read_text()[4:])
    (blob,) = blobs_of(act.azure, f"{OLD_JOB}/{RANK_0}")
    blob.append_block(b"one more line\n")
    done = act.gofer("q", OLD_JOB)
    assert copy.read_text() == "MARK" + OLD_LOGS[RANK_0][4:] + "one more line\n"
    assert "one more line\n" in done.out
    assert done.out.count("do_train") == 99


def blobs_of(azure: Azure, ending: str) -> list[BlobClient]:
    client = azure.blob_client()
    found: list[BlobClient] = []
    for one in client.list_containers():
        held = client.get_container_client(one.name)
        found += [held.get_blob_client(blob.name) for blob in held.list_blobs() if blob.name.endswith(ending)]
    return found


def test_following_a_job_over_dropped_answers(act: OlderToolHome, tmp_path: Path) -> None:
    name, go = f"follow{time.time_ns()}", tmp_path / "go"
    body = {
        "jobType": "Command",
        "command": f"until [ -e {go} ]; do sleep 1; done; for n in $(seq 6); do echo line $n; sleep 1; done",
        "experimentName": "x",
        "computeId": f"{act.azure.workspace}/computes/cpu-cluster",
        "environmentId": f"{act.azure.workspace}/environments/sklearn-1.5/versions/1",
    }
    act.azure.arm("PUT", f"/jobs/{name}", {"properties": body})
    act.azure.wait(name, "Running")
    go.touch()
    act.azure.fault("drop-before", r"/details", count=2, skip=1)
    done = act.gofer("logs", "-f", name)
    assert done.out == "".join(f"line {number}\n" for number in range(1, 7))
    assert "succeeded" in act.gofer("q", name).out


def test_a_run_whose_agent_never_starts_shows_the_services_log(act: OlderToolHome) -> None:
    text = (act.folder / "aux_data/aml/c1.yaml").read_text()
    (act.folder / "aux_data/aml/c1.yaml").write_text(text + "interpreter_path: /nowhere/python3\n")
    done = act.gofer("-c", "c1", "submit", "--wait", "ls", status=None)
    run_id = done.out.strip()
    assert done.status != 0
    shown = act.gofer("q", run_id).out
    assert "/nowhere/python3: No such file or directory" in shown
    assert f"assets/{run_id}/user_logs/std_log.txt" in shown
    assert "/nowhere/python3" in act.gofer("logs", run_id).out
    explained = act.gofer("why", run_id).out
    assert "the service's own log ends:" in explained
    assert "/nowhere/python3" in explained
    act.gofer("extract", run_id, "out")
    assert "/nowhere" in (act.folder / "out/logs/user_logs/std_log.txt").read_text()


def test_a_run_of_ours_has_its_own_log_first_and_the_services_beside_it(act: OlderToolHome) -> None:
    run_id = act.gofer("submit", "--wait", "nvidia-smi").out.strip()
    shown = act.gofer("q", run_id).out
    assert shown.startswith("Tesla V100 rank 0 of 4\n")
    assert f"assets/{run_id}/attempts/1/node-0/rank-3.log" in shown
    assert f"assets/{run_id}/user_logs/std_log.txt" in shown
    assert act.gofer("logs", "--rank", "2", run_id).out == "Tesla V100 rank 2 of 4\n"


def test_a_run_of_another_machines_gofer_is_not_resubmitted_blindly(act: OlderToolHome) -> None:
    name = f"r261101-000000-{str(time.time_ns())[-6:]}"
    leave(act, name, command="python3 -E -s agent.zip room", tags={"gofer": "1"})
    act.gofer("q", name)
    done = act.gofer("resubmit", name, status=1)
    assert "was started by gofer elsewhere" in done.err


def test_a_run_with_mapped_folders_is_sent_again_as_it_was(act: OlderToolHome) -> None:
    first = act.gofer("submit", "-Q", "sh", "-c", "ls -d data output").out.strip()
    act.gofer("wait", first)
    again = act.gofer("resubmit", "-Q", first, env={"PATH": "/usr/bin:/bin"}).out.split()[-1]
    act.gofer("wait", again)
    assert act.gofer("logs", again).out == "data\noutput\n"


def test_an_edit_does_not_reach_a_run_that_waits(act: OlderToolHome) -> None:
    act.azure.admin("POST", "/hold", {"held": True})
    try:
        run_id = act.gofer("submit", "python", "train.py", "--data", "voc20").out.strip()
        until(lambda: act.view(run_id)["state"] == "queued", "the service has it")
        (act.folder / "train.py").write_text("print('new code')\n")
        act.gofer("init")
    finally:
        act.azure.admin("POST", "/hold", {"held": False})
    (run,) = act.wait(run_id)
    assert run["state"] == "succeeded"
    assert "rank 0 of 4 --data voc20" in act.log(run_id)
    assert "new code" in act.log(act.gofer("submit", "--wait", "python", "train.py").out.strip())


def test_the_file_that_the_variable_names(act: OlderToolHome, tmp_path: Path) -> None:
    """The code is that of the current folder, wherever the file lies."""
    code = tmp_path / "elsewhere"
    code.mkdir()
    (code / "mine.py").write_text("print('mine')\n")
    variable = {"AML_CONFIG_PATH": str(act.folder / "aux_data/aml/c2.yaml")}
    done = act.gofer("submit", "--wait", "python", "mine.py", cwd=code, env=variable)
    run_id = done.out.strip()
    assert act.view(run_id)["target"] == "c2"
    assert act.log(run_id) == "mine\n"


def test_no_credential_reaches_the_service_or_a_record(act: OlderToolHome) -> None:
    canary = "dummy-canary-wandb-value"
    path = act.folder / "aux_data/aml/aml.yaml"
    path.write_text(path.read_text().replace("env:\n", f"env:\n   WANDB_API_KEY: {canary}\n", 1))
    run_id = act.gofer("submit", "--wait", "sh", "-c", "echo ${#WANDB_API_KEY}").out.strip()
    assert act.log(run_id) == f"{len(canary)}\n"
    result = json.dumps(act.azure.arm("GET", f"/jobs/{run_id}")) + json.dumps(act.azure.job(run_id))
    result += act.gofer("config", "show").out + act.gofer("q", run_id, "--json").out
    kept = [path for path in act.path.rglob("*") if path.is_file() and "ledger" in path.name]
    for text in [result, *(path.read_bytes().decode("latin-1") for path in kept)]:
        assert canary not in text
        assert act.accounts[0].key not in text


def test_stopping_the_watching_leaves_the_run_alone(act: OlderToolHome) -> None:
    act.need("living old job")
    watching = subprocess.Popen(
        act.argv("monitor", "e2fc7"),
        cwd=act.folder,
        env=act.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert watching.stderr is not None
    result = ""
    while "running" not in result:
        line = watching.stderr.readline().decode()
        assert line, result
        result += line
    watching.send_signal(signal.SIGINT)
    _, rest = watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert "the run continues" in rest.decode()
    assert act.azure.job(OLD_JOB)["status"] == "Running"


def test_what_a_run_of_xt_was_and_left_comes_back(older_home: OlderToolHome) -> None:
    """`xt extract`, `xt download` and `xt view log`, which the document names without their words."""
    older_home.xt()
    older_home.need("a run")
    older_home.gofer("extract", "last", "out")
    assert (older_home.folder / "out/code/myscript.py").read_text() == "print('myscript was here')\n"
    assert (older_home.folder / "out/logs/1/node-0/rank-0.log").read_text() == "myscript was here\n"
    assert older_home.gofer("view", "log", "last").out == "myscript was here\n"
    # `xt download`: a folder of the store, by its name here.
    written = older_home.folder / "gofer.yaml"
    written.write_text(written.read_text() + "folders: {data: {store: xtstorage, path: shared/data}}\n")
    (older_home.folder / "data/mnist").mkdir(parents=True)
    (older_home.folder / "data/mnist/x.bin").write_bytes(b"pixels")
    older_home.gofer("upload", "data/mnist")
    shutil.rmtree(older_home.folder / "data")
    older_home.gofer("download", "data/mnist")
    assert (older_home.folder / "data/mnist/x.bin").read_bytes() == b"pixels"


def test_the_nodes_of_a_job_of_xt(older_home: OlderToolHome) -> None:
    """`xt list nodes` of a job: where each of its nodes ran, and how it ended."""
    older_home.xt()
    run_id = older_home.gofer("submit", "--wait", "--nodes", "2", "myscript.py").out.strip()
    rows = json.loads(older_home.gofer("list", "nodes", run_id, "--json").out)
    assert [(row["node"], row["state"], row["ranks"]) for row in rows] == [
        (0, "succeeded", [0]),
        (1, "succeeded", [1]),
    ]
    assert all(row["host"] and row["started_at"] < row["ended_at"] for row in rows)
    older_home.need("xt job")
    (row,) = json.loads(older_home.gofer("list", "nodes", XT_JOB, "--json").out)
    assert (row["state"], row["host"]) == ("succeeded", "")


def test_the_words_of_the_document_on_a_folder_without_a_project(older_home: OlderToolHome) -> None:
    """Nothing about Azure happens where no file speaks of it."""
    shutil.rmtree(older_home.folder / "aux_data", ignore_errors=True)
    done = older_home.gofer("q", "e2fc7", status=2)
    assert "no run has the id or the name" in done.err
    assert "warning" not in done.err


@pytest.mark.parametrize(
    ("platform", "cluster", "kind", "instance_type"),
    [
        ("aks_compute: true", "itp-cluster", "computes/itp-cluster", "gpu4"),
        (
            "platform: singularity\nsingularity_instance_type: AISupercomputer.ND40rs_v2\n"
            "singularity_sla_tier: Standard",
            "sim-vc",
            "virtualClusters/sim-vc",
            "Singularity.ND40rs_v2",
        ),
    ],
    ids=["itp", "singularity"],
)
def test_files_of_the_other_platforms_run(
    act: OlderToolHome, platform: str, cluster: str, kind: str, instance_type: str
) -> None:
    path = act.folder / "aux_data/aml/c1.yaml"
    text = path.read_text().replace("aks_compute: false", platform).replace(": C1", f": {cluster}")
    path.write_text(text)
    run_id = act.gofer("-c", "c1", "submit", "--wait", "python", "train.py", "--data", "voc20").out.strip()
    assert "rank 0 of 4 --data voc20" in act.log(run_id)
    _, job = act.azure.arm("GET", f"/jobs/{run_id}")
    assert job["properties"]["computeId"].endswith(kind)
    assert job["properties"]["resources"]["instanceType"] == instance_type


@pytest.mark.parametrize(("gpus", "instance_type"), [(1, "gpu1"), (2, "gpu4"), (4, "gpu4")])
def test_kubernetes_gives_the_smallest_instance_type_with_the_gpus(
    act: OlderToolHome, gpus: int, instance_type: str
) -> None:
    on_kubernetes(act)
    plan = act.gofer("-c", "c1", "-n", str(gpus), "submit", "--dry-run", "ls").out
    assert f'"instanceType": "{instance_type}"' in plan


def test_kubernetes_without_the_gpus_is_refused_in_words(act: OlderToolHome) -> None:
    on_kubernetes(act, gpu_per_node=16)
    done = act.gofer("-c", "c1", "submit", "ls", status=1)
    assert "the compute `itp-cluster` of the target `c1` has no instance type with 16 GPUs" in done.err
    assert "`gpu8` (8 GPUs)" in done.err
    assert act.gofer("list", "runs", "--json").out == "[]\n"


def test_kubernetes_without_gpus_takes_the_default_of_the_service(act: OlderToolHome) -> None:
    on_kubernetes(act)
    assert "instanceType" not in act.gofer("-c", "c1", "-n", "0", "submit", "--dry-run", "ls").out


def on_kubernetes(act: OlderToolHome, gpu_per_node: int = 4) -> None:
    """The document's file for the Kubernetes compute of the workspace."""
    path = act.folder / "aux_data/aml/c1.yaml"
    text = (
        path.read_text().replace("aks_compute: false", "aks_compute: true").replace(": C1", ": itp-cluster")
    )
    path.write_text(text.replace("gpu_per_node: 4", f"gpu_per_node: {gpu_per_node}"))
